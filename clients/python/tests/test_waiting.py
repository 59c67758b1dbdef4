"""Waiting reserves: one connection, almost no cost, and outages of Redis."""

import asyncio
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from queue import Queue
from zlib import crc32

import pytest
import redis
import redis.asyncio
from deployment import Deployment
from servers import LOGGED

from delayq import AsyncClient, AsyncConsumer, Client, Message, Word, Worker, link, watch
from delayq.runtime import drive

LONG = timedelta(seconds=60)
PATIENCE_S = 30
SECONDS = 10


@pytest.fixture
def deployment(connection):
    return Deployment(connection, shards=16)


@pytest.fixture
def no_polls(monkeypatch):
    """Disables polls, so that only reports of shards wake a caller."""
    monkeypatch.setattr(watch, "POLL_S", 1000.0)


def commands_within(connection, seconds):
    """Records the commands of delayq's clients."""
    commands = []
    with connection.monitor() as monitor:
        threading.Timer(seconds, lambda: connection.echo("the end")).start()
        for command in monitor.listen():
            if command["command"] == "ECHO the end":
                return commands
            if command["client_type"] != "lua" and command["command"].startswith(("EVAL", "PING", "SSUBSCRIBE")):
                commands.append(command["command"])


def wait_until_quiet(connection):
    """Waits until every shard was asked, and had nothing."""
    calls, before = 0, -1
    while calls != before:
        time.sleep(1)
        calls, before = connection.info("commandstats").get("cmdstat_evalsha", {"calls": 0})["calls"], calls


@contextmanager
def waiting(deployment):
    """A client, and what a reserve of it that waits will find; it listens already."""
    found = Queue()
    with Client(deployment.redis, deployment.namespace) as client:
        thread = threading.Thread(target=lambda: found.put(client.reserve(["orders"], wait=LONG)))
        thread.start()
        while not client._core._watch._connections:
            pass
        yield client, found
        thread.join(PATIENCE_S)


def clients_of(connection, name):
    return [client for client in connection.client_list() if client["name"] == name]


def test_an_idle_client_costs_at_most_a_command_a_second_and_two_connections(deployment, redis_socket):
    with redis.Redis(unix_socket_path=redis_socket, client_name="idle") as own:
        with Client(own, deployment.namespace) as client:
            workers = [Worker(client, {topic: print}, concurrency=8) for topic in ("orders", "mails")]
            for worker in workers:
                worker.start()
            waiting = [threading.Thread(target=lambda: client.reserve(["orders"], wait=LONG)) for _ in range(4)]
            for thread in waiting:
                thread.start()
            wait_until_quiet(deployment.redis)
            commands = commands_within(deployment.redis, SECONDS)
            assert len(commands) <= SECONDS, commands
            assert len(clients_of(deployment.redis, "idle")) == 2
            for worker in workers:
                worker.stop()
        for thread in waiting:
            thread.join(PATIENCE_S)  # the end of the client ends them
            assert not thread.is_alive()


def test_an_idle_asynchronous_client_costs_no_more(deployment, redis_socket):
    async def run():
        async with (
            redis.asyncio.Redis(unix_socket_path=redis_socket, client_name="idle") as own,
            AsyncClient(own, deployment.namespace) as client,
        ):
            waiting = [asyncio.create_task(client.reserve(["orders"], wait=LONG)) for _ in range(20)]
            await asyncio.to_thread(wait_until_quiet, deployment.redis)
            commands = await asyncio.to_thread(commands_within, deployment.redis, SECONDS)
            assert len(commands) <= SECONDS, commands
            assert len(clients_of(deployment.redis, "idle")) == 2
            await client.put(Message("orders", b"x"))
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            found = [task for task in waiting if task.done()]
            assert len(found) == 1 and len(found[0].result()) == 1

    asyncio.run(run())


@pytest.mark.usefixtures("no_polls")
def test_a_wake_up_alone_brings_a_waiting_reserve_its_message(deployment):
    with waiting(deployment) as (client, found):
        client.put(Message("orders", b"x"))
        assert [delivery.payload for delivery in found.get(timeout=PATIENCE_S)] == [b"x"]


def test_who_waits_is_counted_among_the_workers_of_each_topic_until_the_client_is_closed(deployment):
    def are(count):
        channels = [f"{{{deployment.namespace}:0}}:workers:{topic}" for topic in ("orders", "mails")]
        while deployment.redis.execute_command("PUBSUB", "SHARDNUMSUB", *channels)[1::2] != [count] * 2:
            pass

    with waiting(deployment) as (client, _):
        later = threading.Thread(target=lambda: client.reserve(["orders", "mails"], wait=LONG))
        later.start()
        are(1)
        client.close()
        are(0)
        later.join(PATIENCE_S)


@pytest.mark.usefixtures("no_polls")
def test_every_message_finds_one_of_many_that_wait(deployment):
    found = Queue()
    with Client(deployment.redis, deployment.namespace) as client:

        def wait():
            for delivery in client.reserve(["orders"], wait=LONG):
                found.put(delivery.id)

        waiting = [threading.Thread(target=wait) for _ in range(20)]
        for thread in waiting:
            thread.start()
        for n in range(20):
            client.put(Message("orders", b"x", id=f"order-{n}"))
        assert sorted(found.get(timeout=PATIENCE_S) for _ in waiting) == sorted(f"order-{n}" for n in range(20))


@pytest.mark.usefixtures("no_polls")
def test_what_was_reported_while_the_connection_was_down_is_found(deployment):
    with waiting(deployment) as (client, found):
        deployment.redis.execute_command("CLIENT", "KILL", "TYPE", "pubsub")
        client.put(Message("orders", b"x"))
        assert [delivery.payload for delivery in found.get(timeout=PATIENCE_S)] == [b"x"]


@pytest.mark.usefixtures("no_polls")
def test_a_connection_on_which_nothing_comes_any_more_is_replaced(server, monkeypatch):
    for module, setting, value_s in ((watch, "TICK_S", 0.05), (watch, "PING_S", 0.2), (link, "PATIENCE_S", 0.3)):
        monkeypatch.setattr(module, setting, value_s)
    with server.connect() as own, waiting(Deployment(own)) as (client, found):
        listening, (line,) = client._core._watch._connections, client._core._link._lines.values()
        before = listening[""]
        wait_until_quiet(own)  # a call that waits for its answer would be lost
        server.freeze()
        while listening.get("") is before:
            time.sleep(0.01)
        while not line.is_over:  # that for calls is not used again either
            time.sleep(0.01)
        server.thaw()
        client.put(Message("orders", b"x"))
        assert len(found.get(timeout=PATIENCE_S)) == 1


def test_a_call_that_has_only_begun_outlives_a_silence_before_it(server):
    with server.connect() as own, Client(own, Deployment(own).namespace) as client, ThreadPoolExecutor() as pool:
        client.put(Message("orders", b"x"))
        link = client._core._link
        (line,) = link._lines.values()

        server.freeze()
        before_s, putting = time.monotonic(), pool.submit(client.put, Message("orders", b"x"))
        while line._asked_s is None:
            time.sleep(0.01)
        drive(link.doubt("", before_s))
        server.thaw()
        assert putting.result().word == Word.READY


def test_a_lost_report_is_netted_by_a_poll(deployment, monkeypatch):
    monkeypatch.setattr(watch, "POLL_S", 0.05)
    monkeypatch.setattr(watch, "TICK_S", 0.05)
    monkeypatch.setattr(watch.Watch, "_note", lambda self, push: None)
    with waiting(deployment) as (client, found):
        client.put(Message("orders", b"x"))
        assert len(found.get(timeout=PATIENCE_S)) == 1


def test_a_cancelled_reserve_gives_back_what_it_was_answered(deployment, redis_socket):
    async def run():
        async with (
            redis.asyncio.Redis(unix_socket_path=redis_socket) as own,
            AsyncClient(own, deployment.namespace) as client,
        ):
            for steps in range(50):
                await client.put(Message("orders", b"x", id="order-1", replace=True))
                task = asyncio.create_task(client.reserve(["orders"], wait=LONG))
                for _ in range(steps):  # a little later each time
                    await asyncio.sleep(0)
                task.cancel()
                (found,) = await asyncio.gather(task, return_exceptions=True)
                if isinstance(found, list):  # it was not cancelled in time
                    await found[0].release(timedelta(0), keep_attempt=True)
                numbers = await client.topic("orders").count()
                assert (numbers.ready, numbers.leased) == (1, 0)

    asyncio.run(run())


def test_a_call_on_a_connection_that_is_in_doubt_is_lost_before_its_deadline(server):
    lost = Queue()

    def call(client):
        try:
            client.topic("orders").count()
        except redis.RedisError as fault:
            lost.put(fault)

    with redis.Redis(unix_socket_path=server.socket, socket_timeout=LONG.seconds) as own:
        deployment = Deployment(own)
        with Client(own, deployment.namespace) as client:
            client.put(Message("orders", b"x"))
            (line,) = client._core._link._lines.values()
            server.freeze()
            thread = threading.Thread(target=call, args=[client])
            thread.start()
            while line._asked_s is None:
                time.sleep(0.01)
            ends_s = time.monotonic() + PATIENCE_S
            # A doubt before the call is sent reconnects.
            while lost.empty() and time.monotonic() < ends_s:
                drive(client._core._link.doubt("", time.monotonic()))
                time.sleep(0.05)
            assert isinstance(lost.get_nowait(), redis.ConnectionError)
            server.thaw()
            thread.join(PATIENCE_S)
            assert client.topic("orders").count().ready == 1


class Outage:
    """Faults of a Redis under a worker."""

    @staticmethod
    def killed(server):
        server.kill()
        time.sleep(1)
        server.start()

    @staticmethod
    def frozen(server):
        server.freeze()
        time.sleep(3)
        server.thaw()


@pytest.mark.parametrize("outage", [Outage.killed, Outage.frozen], ids=["killed", "frozen"])
def test_a_worker_outlives_an_outage_of_redis(outage, server):
    server.kill()
    server._command += LOGGED
    server.start()
    handled, begun, go_on = Queue(), threading.Event(), threading.Event()

    def handle(delivery):
        begun.set()
        go_on.wait(PATIENCE_S)
        handled.put(delivery.id)

    with redis.Redis(unix_socket_path=server.socket, socket_timeout=1) as own:
        deployment = Deployment(own)
        with Client(own, deployment.namespace) as client:
            worker = Worker(client, {"orders": handle}, concurrency=2)
            worker.start()
            client.put(Message("orders", b"x", id="before"))
            assert begun.wait(PATIENCE_S)
            outage(server)
            go_on.set()
            assert handled.get(timeout=PATIENCE_S) == "before"
            client.put(Message("orders", b"x", id="after"))
            assert handled.get(timeout=PATIENCE_S) == "after"
            worker.stop()
            assert client.topic("orders").count().delivered == 2  # the first was acked once Redis was back


def test_an_asynchronous_consumer_outlives_an_outage_of_redis(server):
    server.kill()
    server._command += LOGGED
    server.start()
    with server.connect() as connection:
        deployment = Deployment(connection)

    async def run():
        async with (
            redis.asyncio.Redis(unix_socket_path=server.socket, socket_timeout=1) as own,
            AsyncClient(own, deployment.namespace) as client,
            AsyncConsumer(client, ["orders"]) as consumer,
        ):
            waiting = asyncio.create_task(consumer.__anext__())
            await asyncio.to_thread(Outage.killed, server)
            await client.put(Message("orders", b"x", id="after"))
            delivery = await asyncio.wait_for(waiting, PATIENCE_S)
            assert delivery.id == "after" and (await delivery.ack()).word == "delivered"

    asyncio.run(run())


def test_a_worker_waits_for_a_redis_that_is_not_there_yet(server):
    handled = Queue()
    with redis.Redis(unix_socket_path=server.socket) as own, Client(own, "late") as client:
        server.kill()
        worker = Worker(client, {"orders": lambda delivery: handled.put(delivery.id)})
        worker.start()
        server.start()
        Deployment(own, namespace="late")
        client.put(Message("orders", b"x", id="first"))
        assert handled.get(timeout=PATIENCE_S) == "first"
        worker.stop()


def test_a_growth_is_followed_by_those_who_wait(deployment):
    with waiting(deployment) as (client, found):
        for shard in [*range(16, 20), *range(16)]:
            deployment.call("grow", shard, shard, "16,20", layout=2)
        with Client(deployment.redis, deployment.namespace) as other:
            put = other.put(Message("orders", b"x", id=in_shard(19, 20)))
            assert put.shard == 19
        assert len(found.get(timeout=PATIENCE_S)) == 1


def in_shard(shard, shards):
    """An id that belongs there."""
    return next(f"order-{n}" for n in range(10_000) if crc32(f"order-{n}".encode()) % shards == shard)


def test_a_consumer_in_a_forked_process_has_connections_of_its_own(deployment):
    with Client(deployment.redis, deployment.namespace) as client:
        client.put(Message("orders", b"x", id="parent"))
        if (child := os.fork()) == 0:
            ids = [client.put(Message("orders", b"x", id=f"child-{n}")).word for n in range(50)]
            (delivery,) = client.reserve(["orders"], wait=LONG)
            os._exit(0 if set(ids) <= {"ready", "exists"} and delivery.ack().word == "delivered" else 1)
        puts = [client.put(Message("orders", b"x", id=f"parent-{n}")).word for n in range(50)]
        assert os.waitpid(child, 0)[1] == 0
        assert set(puts) == {"ready"} and client.topic("orders").count().accepted == 101


def test_topics_that_nobody_waits_for_are_forgotten_once_that_is_long_ago(deployment):
    with waiting(deployment) as (client, _):
        asked, instant = client._core._watch._asked, timedelta(milliseconds=1)
        for topic in ("old", "young"):
            client.reserve([topic], wait=instant)
        for topics in (("orders",), ("old",)):
            asked[topics].used_s -= 2 * watch.LINGER_S
        client.reserve(["next"], wait=instant)
        assert set(asked) == {("orders",), ("young",), ("next",)}
        client.put(Message("orders", b"x", after=timedelta(0)))
