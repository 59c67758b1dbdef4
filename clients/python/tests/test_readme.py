"""The programs of the README as they stand there, from the installed package, with the real timer."""

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
    """Makes a program of the README one for the server of this test."""
    with server.connect() as connection:
        deployment = Deployment(connection, 2, namespace="dq")
    timer = Timer(Path(server.socket).parent, server.socket, deployment.namespace, deployment.shards)

    def start(text):
        changed = re.sub(r"Redis\(\)", f"Redis(unix_socket_path={server.socket!r})", text)
        assert changed != text
        return subprocess.Popen([installed, "-c", changed], stdout=subprocess.PIPE, text=True, cwd=tmp_path)

    yield start
    timer.end()


@pytest.mark.parametrize("worker", [WORKER, ASYNC_WORKER], ids=["threads", "asyncio"])
def test_the_worker_gets_what_the_producer_puts(program, worker):
    with program(worker) as working:
        assert program(PRODUCER).wait(60) == 0
        assert working.stdout.readline() == 'due: order-17 {"order":17}\n'
        working.send_signal(signal.SIGTERM)
        assert working.wait(60) == 0


def test_what_else_it_shows_works(connection):
    deployment = Deployment(connection, 2)
    with delayq.Client(connection, deployment.namespace) as client:
        client.put(delayq.Message("orders", b"x"))
        names = {name: getattr(delayq, name) for name in delayq.__all__} | {"client": client, "timedelta": timedelta}
        consumer, verbs, _, _ = FRAGMENTS
        exec(consumer.replace("delivery.ack()", "delivery.ack(); break"), names)
        assert client.topic("orders").count().delivered == 1
        exec(verbs, names)
        assert client.topic("orders").policy().max_attempts == 5


def test_the_urls_it_shows_are_taken(sentinel, cluster):
    text = re.sub(r'"redis\+sentinel:.*?"', repr(sentinel.url), FRAGMENTS[2])
    exec(re.sub(r'"redis\+cluster:.*?"', repr(cluster.url), text), {"Client": delayq.Client, "connect": delayq.connect})


def test_the_list_of_nodes_it_shows_is_taken():
    exec(FRAGMENTS[3], {name: getattr(delayq, name) for name in ("Client", "Node", "connect")})
