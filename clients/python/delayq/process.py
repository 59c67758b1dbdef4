"""The name of this process in the history of messages."""

import os
import socket
import sys


def process_name() -> str:
    """`program@host:pid`, computed on each call, since a process may fork."""
    name = f"{os.path.basename(sys.argv[0]) if sys.argv else ''}@{socket.gethostname()}:{os.getpid()}"
    # A file name may have bytes that are not UTF-8, which cannot be sent.
    return name.encode(errors="replace").decode()
