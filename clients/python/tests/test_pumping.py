"""Workers that pump: messages are delivered on time without a timer."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest
from deployment import Deployment
from servers import RedisGroup, Timer
from test_servers import Handled, driven, put_all, put_while, settled
from test_worker import PATIENCE_S, both, until

from delayq import AsyncClient, Client, Message, Worker, connect
from delayq.schedule import LOCK_S, POLL_S

CLIENT = Path(__file__).resolve().parents[1]
#: A worker in a process of its own.
PROGRAM = """
import sys
from delayq import Client, Worker, connect

with Client(connect(sys.argv[1], socket_timeout=1), sys.argv[2]) as client:
    Worker(client, {"orders": lambda delivery: print(delivery.id, flush=True)}, pump=True).run()
"""


@pytest.fixture
def deployment(connection):
    return Deployment(connection, shards=2)


@pytest.fixture
def client(deployment):
    with Client(deployment.redis, deployment.namespace) as client:
        yield client


#: A worker that slept until its next poll would deliver most messages later than this.
LATE_MS = POLL_S * 1000 / 2
# Time for a busy machine.
BUSY_S = 5


class Late:
    """Takes messages, and how late each came, in ms."""

    def __init__(self):
        self.ms = {}

    def __call__(self, delivery):
        assert delivery.id not in self.ms
        self.ms[delivery.id] = time.time() * 1000 - delivery.due_ms


def owners(deployment):
    return [(deployment.redis.hget(deployment.key(shard), "owner") or b"").decode() for shard in range(deployment.shards)]


@contextlib.contextmanager
def process(deployment):
    """A worker in a process of its own."""
    socket = deployment.redis.connection_pool.connection_kwargs["path"]
    command = [sys.executable, "-c", PROGRAM, f"unix://{socket}", deployment.namespace]
    worker = subprocess.Popen(command, cwd=CLIENT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        yield worker
    finally:
        worker.kill()
        worker.communicate()


def owned_by(deployment, worker):
    return all(f":{worker.pid}-" in owner for owner in owners(deployment))


def due_in(ms, n):
    """Messages that are due one after the other."""
    first_ms = int(time.time() * 1000) + ms
    return [Message("orders", b"x", id=f"order-{at_ms}", at=at_ms) for at_ms in range(first_ms, first_ms + n)]


@both
def test_own_ids_are_delivered_on_time_without_a_timer(client, kind):
    late = Late()
    with kind(client, late, pump=True):
        client.put_many(due_in(300, 500))
        until(lambda: len(late.ms) == 500)
    assert min(late.ms.values()) >= -1 and sorted(late.ms.values())[250] < LATE_MS


@both
def test_a_nearer_put_wakes_a_worker_that_sleeps(client, kind):
    late = Late()
    with kind(client, late, pump=True):
        client.put_many([Message("orders", b"x", id=f"far-{n}", after=timedelta(hours=1)) for n in range(8)])
        for n in range(8):
            client.put(Message("orders", b"x", id=f"near-{n}", after=timedelta(milliseconds=50)))
            until(lambda: f"near-{n}" in late.ms)
    assert sorted(late.ms.values())[4] < LATE_MS and len(late.ms) == 8


@both
def test_retries_leases_and_reports_that_were_lost_are_pumped_too(client, deployment, kind):
    handled = Counter()

    def handle(delivery):
        handled[delivery.id] += 1
        if handled[delivery.id] == 1:
            raise OSError("not yet")

    with kind(client, handle, pump=True):
        until(lambda: all(owners(deployment)))
        for shard in range(2):  # as it is where a report was lost
            deployment.redis.execute_command("CLIENT", "KILL", "TYPE", "pubsub")
        client.put(Message("orders", b"x", id="order-1", after=timedelta(milliseconds=20)))
        until(lambda: handled["order-1"] == 2)


@both
def test_a_server_that_forgets_its_scripts_loses_nothing(client, deployment, kind):
    late = Late()
    with kind(client, late, pump=True):
        client.put_many(due_in(100, 500))
        while len(late.ms) < 500:
            deployment.redis.script_flush()
            time.sleep(0.05)
    assert client.topic("orders").count().delivered == 500


def test_a_hand_over_waits_for_no_lock(client, deployment):
    with Client(deployment.redis, deployment.namespace) as second:
        workers = [Worker(one, {"orders": print}, pump=True) for one in (client, second)]
        workers[0].start()
        until(lambda: all(owners(deployment)))
        workers[1].start()
        until(lambda: deployment.redis.pubsub_shardnumsub(deployment.key(1, "wake"))[0][1] == 2)
        first, began_s = owners(deployment), time.monotonic()
        workers[0].stop()
        until(lambda: not set(owners(deployment)) & set(first))
        took_s = time.monotonic() - began_s
        workers[1].stop()
    assert took_s < LOCK_S / 2


def test_a_worker_that_was_killed_is_replaced_when_its_lock_ends(client, deployment):
    with process(deployment) as one:
        until(lambda: owned_by(deployment, one))
        with process(deployment) as other:
            until(lambda: deployment.redis.pubsub_shardnumsub(deployment.key(0, "wake"))[0][1] == 2)
            one.send_signal(signal.SIGKILL)
            killed_s = time.monotonic()
            client.put(Message("orders", b"x", id="order-1", after=timedelta(milliseconds=20)))
            assert other.stdout.readline().strip() == "order-1"
            until(lambda: owned_by(deployment, other))
            assert time.monotonic() - killed_s < LOCK_S + 1 + BUSY_S


def test_an_idle_worker_makes_less_than_one_call_in_two_seconds(connection):
    deployment = Deployment(connection)
    with Client(connection, deployment.namespace) as client:
        worker = Worker(client, {"orders": print}, pump=True)
        worker.start()
        client.put(Message("orders", b"x", after=timedelta(hours=1)))
        until(lambda: owners(deployment)[0])
        time.sleep(1)
        calls = [worker._working._pumping._calls._link._lines["", ""]]
        made = []
        real = calls[0].exchange

        async def counted(commands):
            made.extend(commands)
            return await real(commands)

        calls[0].exchange = counted
        time.sleep(12)
        worker.stop()
    assert 2 <= len(made) - 1 <= 6, made  # and one that gives the shard back


@both
def test_a_redis_that_was_silent_is_pumped_again(kind, server):
    with server.connect() as connection:
        deployment = Deployment(connection, shards=2)
        with connect(f"unix://{server.socket}", socket_timeout=1) as own, Client(own, deployment.namespace) as client:
            late = Late()
            with kind(client, late, pump=True):
                client.put_many(due_in(0, 20) + due_in(1500, 20))
                until(lambda: len(late.ms) >= 20)
                server.freeze()
                time.sleep(2.5)
                server.thaw()
                client.put_many(due_in(500, 20))
                until(lambda: len(late.ms) == 60)


def test_a_timer_that_joins_and_leaves_under_load_loses_and_repeats_nothing(client, deployment, folder, redis_socket):
    handled, ends = Counter(), threading.Event()
    workers = [Worker(client, {"orders": lambda delivery: handled.update([delivery.id])}, pump=True) for _ in range(2)]
    for worker in workers:
        worker.start()
    put = []

    def load():
        while not ends.wait(0.005):
            put.append(client.put(Message("orders", b"x", id=f"order-{len(put)}", after=timedelta(milliseconds=random.randrange(500)))).id)

    loading = threading.Thread(target=load)
    loading.start()
    for _ in range(2):
        until(lambda: all(owner.startswith("worker/") for owner in owners(deployment)))
        timer = Timer(folder, redis_socket, deployment.namespace, deployment.shards)
        until(lambda: not any(owner.startswith("worker/") for owner in owners(deployment)))
        time.sleep(1)
        timer.end()
    until(lambda: all(owner.startswith("worker/") for owner in owners(deployment)))
    ends.set()
    loading.join()
    until(lambda: len(handled) == len(put))
    for worker in workers:
        worker.stop()
    assert set(handled) == set(put) and set(handled.values()) == {1}


@pytest.mark.parametrize("group", ["sentinel", "cluster"])
@pytest.mark.parametrize("kind", [Client, AsyncClient], ids=["blocking", "asynchronous"])
def test_a_worker_pumps_the_successor_of_a_master_that_was_killed(kind, group):
    group = RedisGroup(group)  # whose master does not come back

    async def work(client):
        handled = Handled(client, pump=True)
        await settled(handled.worker.start())
        soon = {"after": timedelta(milliseconds=50)}
        await handled.has(await put_all(client, "before", **soon))
        await put_while(client, "meanwhile", lambda: group.does("kill", f"{{{client.namespace}:0}}:meta"))
        await handled.has(await put_all(client, "after", **soon))
        await settled(handled.worker.stop())

    with connect(group.url) as connection:
        deployment = Deployment(connection, 8)
    driven(kind, group.url, deployment.namespace, work, socket_timeout=1)
    group.end()
