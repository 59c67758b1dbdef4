"""The programs of the README, unchanged, with the installed package and a real timer."""

import re
import signal
import subprocess
from datetime import timedelta
from pathlib import Path

import pytest
from deployment import Deployment
from servers import Timer

import delayq

BLOCKS = re.findall(r"^```python\n(.*?)^```", (Path(__file__).parents[1] / "README.md").read_text("utf-8"), re.M | re.S)
WORKER, PRODUCER, ASYNC_WORKER, *FRAGMENTS = BLOCKS


@pytest.fixture
def program(server, installed, tmp_path):
    """Points a program of the README to the server of the test."""
    with server.connect() as connection:
        deployment = Deployment(connection, 2, namespace="dq")
    timer = Timer(Path(server.socket).parent, server.socket, deployment.namespace, deployment.shards)

    def start(text):
        changed = text.replace("unix:///tmp/delayq/redis.sock", f"unix://{server.socket}")
        assert changed != text
        return subprocess.Popen([installed, "-c", changed], stdout=subprocess.PIPE, text=True, cwd=tmp_path)

    yield start
    timer.end()


@pytest.mark.parametrize("worker", [WORKER, ASYNC_WORKER], ids=["threads", "asyncio"])
def test_the_worker_gets_what_the_producer_puts(program, worker):
    with program(worker) as working:
        with program(PRODUCER) as producing:
            assert producing.stdout.read() == "py-order-17 stored \ncancelled\n"
        assert working.stdout.readline() == 'due: py-order-17 {"order":17}\n'
        working.send_signal(signal.SIGTERM)
        assert working.wait(60) == 0


def test_a_producer_that_stores_nothing_says_so(program, server):
    with server.connect() as connection, delayq.Client(connection) as client:
        client.put(delayq.Message("py-orders", b'{"order":17}', id="py-order-17", after=timedelta(hours=1)))
        client.cancel("py-orders", "py-order-17")
    with program(PRODUCER) as producing:
        assert producing.stdout.read() == "py-order-17 exists cancelled\n"
    assert producing.returncode == 1


def test_what_else_it_shows_works(connection):
    deployment = Deployment(connection, 2)
    with delayq.Client(connection, deployment.namespace) as client:
        client.put(delayq.Message("py-orders", b"x"))
        names = {name: getattr(delayq, name) for name in delayq.__all__} | {"client": client, "timedelta": timedelta}
        consumer, verbs, _, _ = FRAGMENTS
        exec(consumer.replace("delivery.ack()", "delivery.ack(); break"), names)
        assert client.topic("py-orders").count().delivered == 1
        exec(verbs, names)
        assert client.topic("py-orders").policy().max_attempts == 5


def test_the_urls_it_shows_are_taken(sentinel, cluster):
    text = re.sub(r'"redis\+sentinel:.*?"', repr(sentinel.url), FRAGMENTS[2])
    exec(re.sub(r'"redis\+cluster:.*?"', repr(cluster.url), text), {"Client": delayq.Client, "connect": delayq.connect})


def test_the_list_of_nodes_it_shows_is_taken():
    exec(FRAGMENTS[3], {name: getattr(delayq, name) for name in ("Client", "Node", "connect")})
