"""A private redis-server for the tests, on a unix socket in a temporary folder."""

import json
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
import redis

VECTORS = Path(__file__).resolve().parents[3] / "tests" / "vectors"


def vectors(name):
    return json.loads((VECTORS / name).read_text("utf-8"))


@pytest.fixture(scope="session")
def redis_socket():
    """The socket of a server that answers; it ends with the tests."""
    folder = tempfile.mkdtemp(prefix="delayq-py-")
    socket = f"{folder}/s"
    command = ["redis-server", "--port", "0", "--unixsocket", socket, "--dir", folder, "--save", "", "--appendonly", "no"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        said = []
        for line in server.stdout:  # ends with the server, where it does not start
            said.append(line)
            if "ready to accept connections" in line.lower():
                break
        with redis.Redis(unix_socket_path=socket) as probe:
            assert probe.ping(), "".join(said)
        yield socket
    finally:
        server.kill()
        server.wait()
        server.stdout.close()
        shutil.rmtree(folder)
