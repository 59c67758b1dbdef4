"""A private redis-server for the tests, on a unix socket in a temporary folder."""

import json
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
import redis
from redis.backoff import ConstantBackoff
from redis.retry import Retry

VECTORS = Path(__file__).resolve().parents[3] / "tests" / "vectors"


def vectors(name):
    return json.loads((VECTORS / name).read_text("utf-8"))


@pytest.fixture(scope="session")
def redis_socket():
    """The socket of a server that answers; it ends with the tests."""
    folder = tempfile.mkdtemp(prefix="delayq-py-")
    socket = f"{folder}/s"
    command = ["redis-server", "--port", "0", "--unixsocket", socket, "--dir", folder, "--save", "", "--appendonly", "no"]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        patience = Retry(ConstantBackoff(0.02), 500, supported_errors=(redis.ConnectionError,))
        probe = redis.Redis(unix_socket_path=socket, retry=patience)
        assert probe.ping() and server.poll() is None
        probe.close()
        yield socket
    finally:
        server.kill()
        server.wait()
        shutil.rmtree(folder)
