"""Redis by Sentinel and Redis Cluster: servers that die, are silent, or hand slots over."""

import asyncio
import inspect
import threading
import time
from datetime import timedelta

import pytest
from deployment import Deployment
from redis.exceptions import RedisError

from delayq import AsyncClient, AsyncWorker, Client, Message, Worker, connect, connect_async, watch
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

    def __init__(self, client, **options):
        self.ids = []

        async def handle(delivery):
            self.ids.append(delivery.id)

        is_blocking = isinstance(client, Client)
        make = Worker if is_blocking else AsyncWorker
        handler = (lambda delivery: self.ids.append(delivery.id)) if is_blocking else handle
        self.worker = make(client, {"orders": handler}, concurrency=4, **options)

    async def has(self, ids):
        ends_s = time.monotonic() + PATIENCE_S
        while not set(ids) <= set(self.ids):
            assert time.monotonic() < ends_s, f"{set(ids) - set(self.ids)} did not come"
            await asyncio.sleep(0.01)


async def put_all(client, name, count=4 * SHARDS, **options):
    """Puts a message into every shard, repeating until accepted, and returns the ids."""
    ids = [f"{name}-{n}" for n in range(count)]
    ends_s = time.monotonic() + PATIENCE_S
    for id in ids:
        while True:
            assert time.monotonic() < ends_s, f"{id} was not accepted"
            try:
                assert (await settled(client.put(Message("orders", b"x", id=id, **options)))).accepted
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
