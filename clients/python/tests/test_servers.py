"""Redis by Sentinel and Redis Cluster: servers that die, are silent, or hand slots over."""

import asyncio
import inspect
import socket
import tempfile
import threading
import time
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from deployment import Deployment
from redis.exceptions import RedisError
from servers import RedisServer, free_port

from delayq import AsyncClient, AsyncWorker, Client, Message, Worker, connect, connect_async, places, watch
from delayq.errors import is_outage

PATIENCE_S = 60
SHARDS = 8


async def settled(value):
    """Returns the result of a call of either client."""
    return await value if inspect.isawaitable(value) else value


@pytest.fixture(params=["sentinel", "cluster"])
def group(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def deployment(group):
    with connect(group.url) as connection:
        yield Deployment(connection, SHARDS, f"s{time.time_ns()}")


both = pytest.mark.parametrize("kind", [Client, AsyncClient], ids=["blocking", "asynchronous"])


def driven(kind, url, namespace, work, **options):
    """Has work done by a client of either kind."""

    async def run():
        if kind is Client:
            with connect(url, **options) as connection, Client(connection, namespace) as client:
                await work(client)
        else:
            async with connect_async(url, **options) as connection, AsyncClient(connection, namespace) as client:
                await work(client)

    asyncio.run(run())


class Handled:
    """A worker, and the ids that the handler received."""

    def __init__(self, client):
        self.ids = []

        async def handle(delivery):
            self.ids.append(delivery.id)

        is_blocking = isinstance(client, Client)
        make = Worker if is_blocking else AsyncWorker
        handler = (lambda delivery: self.ids.append(delivery.id)) if is_blocking else handle
        self.worker = make(client, {"orders": handler}, concurrency=4)

    async def has(self, ids):
        ends_s = time.monotonic() + PATIENCE_S
        while not set(ids) <= set(self.ids):
            assert time.monotonic() < ends_s, f"{set(ids) - set(self.ids)} did not come"
            await asyncio.sleep(0.01)


async def put_all(client, name, count=4 * SHARDS):
    """Puts a message into every shard, repeating until accepted, and returns the ids."""
    ids = [f"{name}-{n}" for n in range(count)]
    for id in ids:
        while True:
            try:
                assert (await settled(client.put(Message("orders", b"x", id=id)))).accepted
                break
            except RedisError as fault:
                assert is_outage(fault), repr(fault)
                await asyncio.sleep(0.02)
    return ids


async def put_while(client, name, harm):
    """Puts for as long as servers are harmed, in a thread. Returns the ids."""
    harming, ids = asyncio.create_task(asyncio.to_thread(harm)), []
    while not harming.done():
        ids += await put_all(client, f"{name}-{len(ids)}", 1)
        await asyncio.sleep(0.005)
    await harming
    return ids


@pytest.fixture
def no_polls(monkeypatch):
    """Disables polls, so that only reports of shards wake a worker."""
    monkeypatch.setattr(watch, "POLL_S", 1000.0)


@both
@pytest.mark.usefixtures("no_polls")
def test_a_worker_goes_on_at_the_successor_of_a_master_that_was_killed(kind, group, deployment):
    async def work(client):
        handled = Handled(client)
        await settled(handled.worker.start())
        await handled.has(await put_all(client, "before"))
        # Puts answered by the dying master may be lost.
        await put_while(client, "meanwhile", lambda: group.does("kill", deployment.key(0)))
        await handled.has(await put_all(client, "after"))
        await settled(handled.worker.stop())

    driven(kind, group.url, deployment.namespace, work, socket_timeout=1)


@both
@pytest.mark.usefixtures("no_polls")
@pytest.mark.parametrize("group", ["cluster"], indirect=True)
def test_a_slot_that_goes_to_another_server_and_back_loses_and_repeats_nothing(kind, group, deployment):
    async def work(client):
        handled = Handled(client)
        await settled(handled.worker.start())
        ids = await put_all(client, "before")
        for way in ("there", "back"):
            ids += await put_while(client, way, lambda: group.does("move", deployment.key(0)))
            await handled.has(ids)
            ids += await put_all(client, f"after-{way}")
        await handled.has(ids)
        assert sorted(handled.ids) == sorted(ids)
        await settled(handled.worker.stop())
        assert (await settled(client.topic("orders").count())).delivered == len(ids)

    driven(kind, group.url, deployment.namespace, work)


@both
def test_a_call_whose_answer_is_lost_is_not_sent_again(kind, group, deployment):
    async def work(client):
        puts = [Message("orders", b"x", group=deployment.namespace) for _ in range(5)]
        (shard,) = {put.shard for put in await settled(client.put_many(puts))}
        group.does("freeze", deployment.key(shard))
        try:
            with pytest.raises((RedisError, OSError)):
                await settled(client.reserve(["orders"]))
        finally:
            group.does("thaw")
        ends_s = time.monotonic() + PATIENCE_S
        while True:
            try:
                numbers = await settled(client.topic("orders").count())
                break
            except (RedisError, OSError):  # the server that was silent may have been succeeded
                assert time.monotonic() < ends_s
        assert numbers.leased <= 1 and numbers.ready + numbers.leased == 5

    driven(kind, group.url, deployment.namespace, work, socket_timeout=0.5)


@contextmanager
def master_and_sentinel():
    """A Redis, a Sentinel that names the Redis, and the URL."""
    with tempfile.TemporaryDirectory(prefix="delayq-py-") as folder, RedisServer(folder, port=free_port()) as master:
        config = Path(folder) / "sentinel.conf"
        config.write_text(f"sentinel monitor main 127.0.0.1 {master.port} 1\n")
        with RedisServer(folder, port=free_port(), name="sentinel", sentinel=config) as sentinel:
            yield sentinel, f"redis+sentinel://127.0.0.1:{sentinel.port}/main"


@contextmanager
def silent_beside_another():
    """A client of a Redis, and a URL of the same by two Sentinels, of which the first never answers."""
    with master_and_sentinel() as (_, url), connect(url) as connection, socket.create_server(("127.0.0.1", 0)) as silent:
        yield connection, url.replace("//", f"//127.0.0.1:{silent.getsockname()[1]},")


@both
def test_silent_sentinels_take_the_calls_of_a_healthy_redis_little_time(kind, monkeypatch):
    monkeypatch.setattr(places, "ASK_S", 0.0)

    async def work(client):
        place, asked = getattr(client, "_core", client)._link.place, []
        named = place._named
        monkeypatch.setattr(place, "_named", lambda: asked.append(True) or named())
        await put_all(client, "connected", 1)
        sentinel.freeze()
        asked.clear()
        while not asked:
            await put_all(client, f"put-{time.monotonic()}", 1)
        await put_all(client, "after", 10)
        assert len(asked) == 1

    with master_and_sentinel() as (sentinel, url), connect(url) as connection:
        driven(kind, url, Deployment(connection, SHARDS, "silent").namespace, work)


@both
def test_a_former_master_is_left_although_its_successor_is_dead(kind, monkeypatch):
    monkeypatch.setattr(places, "ASK_S", 0.0)
    monkeypatch.setattr(places, "WAIT_S", PATIENCE_S)

    async def work(client):
        await put_all(client, "connected", 1)
        successor = str(free_port())
        with connect(f"redis://127.0.0.1:{sentinel.port}") as operator:
            for order in [("REMOVE",), ("MONITOR", "127.0.0.1", successor, "1"), ("SET", "down-after-milliseconds", "1")]:
                operator.execute_command("SENTINEL", order[0], "main", *order[1:])
            while not operator.sentinel_masters()["main"]["is_sdown"]:
                await asyncio.sleep(0.01)
        with pytest.raises(RedisError):
            await settled(client.put(Message("orders", b"x", id="lost")))

    with master_and_sentinel() as (sentinel, url), connect(url) as connection:
        driven(kind, url, Deployment(connection, SHARDS, "former").namespace, work)


@both
def test_a_silent_sentinel_that_is_asked_twice_at_once_is_passed_over_and_not_forgotten(kind):
    async def work(client):
        manager = getattr(client, "_core", client)._link.place._pool.sentinel_manager
        known = set(manager.sentinels)
        ask = partial(asyncio.to_thread, manager.discover_master) if kind is Client else manager.discover_master
        assert len(set(await asyncio.gather(ask("main"), ask("main")))) == 1
        assert set(manager.sentinels) == known
        await put_all(client, "after", 1)

    with silent_beside_another() as (connection, url):
        driven(kind, url, Deployment(connection, SHARDS, "passed-over").namespace, work)


async def put_until(client, is_so):
    ends_s = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < ends_s
        await put_all(client, f"put-{time.monotonic()}", 1)
        await asyncio.sleep(0.01)


@both
def test_sentinels_are_asked_again_soon_although_none_has_answered(kind, monkeypatch):
    async def work(client):
        place, questions = getattr(client, "_core", client)._link.place, []
        named = place._named

        async def ask():
            questions.append([time.monotonic()])
            try:
                return await named()
            finally:
                questions[-1].append(time.monotonic())

        await put_until(client, lambda: place._master)
        sentinel.freeze()
        monkeypatch.setattr(place, "_named", ask)
        await put_until(client, lambda: len(questions) > 1)
        (began_s, ended_s), (again_s, *_) = questions[:2]
        assert again_s - ended_s < places.ASK_S + (ended_s - began_s), "it rests no longer than the question took"

    with master_and_sentinel() as (sentinel, url), connect(url) as connection:
        driven(kind, url, Deployment(connection, SHARDS, "soon").namespace, work)


def test_sentinels_are_asked_again_after_a_question_that_was_cancelled_before_it_began(monkeypatch):
    monkeypatch.setattr(places, "ASK_S", 0.0)

    async def work(client):
        place = client._link.place
        asking = asyncio.create_task(place.is_replaced())
        while place._question is None:
            await asyncio.sleep(0)
        place._question.cancel()
        await asking
        assert place._master is None
        await put_until(client, lambda: place._master)

    with master_and_sentinel() as (_, url), connect(url) as connection:
        driven(AsyncClient, url, Deployment(connection, SHARDS, "cancelled").namespace, work)


@both
def test_a_sentinel_that_was_restarted_is_asked_over_a_new_connection_at_once(kind):
    async def work(client):
        manager = getattr(client, "_core", client)._link.place._pool.sentinel_manager
        await settled(manager.discover_master("main"))
        sentinel.kill()
        sentinel.start()
        await settled(manager.discover_master("main"))

    with master_and_sentinel() as (sentinel, url), connect(url) as connection:
        driven(kind, url, Deployment(connection, SHARDS, "restarted").namespace, work)


@pytest.mark.usefixtures("no_polls")
def test_a_listener_that_ended_is_started_again_while_another_stays(cluster, monkeypatch):
    with connect(cluster.url) as own, Client(own, Deployment(own, SHARDS, f"s{time.time_ns()}").namespace) as client:
        client.reserve(["orders"], wait=timedelta(milliseconds=1))
        listening = client._core._watch
        ended, task = next(iter(listening._listeners.items()))
        others = set(listening._listeners) - {ended}
        with monkeypatch.context() as patch:
            patch.setattr(watch.Watch, "_lingers", lambda self: threading.current_thread() is not task._thread)
            task._thread.join(PATIENCE_S)
        assert others and set(listening._listeners) == others
        client.reserve(["orders"], wait=timedelta(milliseconds=1))
        assert set(listening._listeners) == others | {ended}
