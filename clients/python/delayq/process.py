"""What this process calls itself in the history of messages."""

import os
import socket
import sys


def process_name() -> str:
    """`program@host:pid`. Asked each time, since a process may fork."""
    name = f"{os.path.basename(sys.argv[0]) if sys.argv else ''}@{socket.gethostname()}:{os.getpid()}"
    # A file's name may have bytes that are no text, which no connection would send.
    return name.encode(errors="replace").decode()
