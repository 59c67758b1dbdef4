"""Private servers for the tests, in a temporary folder, ended with the tests."""

import json
import shutil
import tempfile
from pathlib import Path

import packing
import pytest
import redis
from servers import RedisGroup, RedisServer, Timer

VECTORS = Path(__file__).resolve().parents[3] / "tests" / "vectors"


def vectors(name):
    return json.loads((VECTORS / name).read_text("utf-8"))


@pytest.fixture(scope="session")
def folder():
    """A folder whose path is short enough for sockets."""
    folder = tempfile.mkdtemp(prefix="delayq-py-")
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def redis_socket(folder):
    """The socket of a server that answers."""
    with RedisServer(folder) as server:
        yield server.socket


@pytest.fixture(scope="session")
def sentinel():
    """A master, two replicas and three Sentinels."""
    group = RedisGroup("sentinel")
    yield group
    group.end()


@pytest.fixture(scope="session")
def cluster():
    """Three masters and a replica of each."""
    group = RedisGroup("cluster")
    yield group
    group.end()


@pytest.fixture
def connection(redis_socket):
    """A connection to that server, which is empty afterwards."""
    with redis.Redis(unix_socket_path=redis_socket) as connection:
        yield connection
        connection.flushdb()


@pytest.fixture
def server():
    """A server that the test may stop, freeze and start again."""
    with tempfile.TemporaryDirectory(prefix="delayq-py-") as folder, RedisServer(folder) as server:
        yield server


@pytest.fixture
def timer(folder, redis_socket):
    """Starts the real timer for a deployment."""
    timers = []

    def start(deployment):
        timers.append(Timer(folder, redis_socket, deployment.namespace, deployment.shards))

    yield start
    for timer in timers:
        timer.end()


@pytest.fixture(scope="session")
def packed(tmp_path_factory):
    """A source archive, and a wheel built from the archive alone."""
    folder = tmp_path_factory.mktemp("packed")
    source = packing.archive(folder)
    return source, packing.wheel(source, folder / "wheel")


@pytest.fixture(scope="session")
def installed(packed, tmp_path_factory):
    """The Python of an environment that has the wheel."""
    return packing.environment(packed[1], tmp_path_factory.mktemp("installed"))
