"""Callers that give up, at each place of a wait: nothing stays leased, and nothing unsent is sent later."""

import asyncio
import types
from datetime import timedelta

import pytest
import redis.asyncio
from deployment import Deployment

from delayq import AsyncClient, AsyncConsumer, AsyncDelivery, AsyncWorker, Client, ClientClosed, Message, OtherLoop, Policy

HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)
PATIENCE_S = 30


@pytest.fixture
def deployment(connection):
    return Deployment(connection, shards=2)


@types.coroutine
def cancelled_at(n, work):
    """Runs work whose task is cancelled at the n-th wait. Returns the number of waits."""
    inner, count = work.__await__(), 0
    send, value = inner.send, None
    while True:
        try:
            waits_for = send(value)
        except StopIteration:
            return count
        count += 1
        if count == n:
            asyncio.current_task().cancel()
        try:
            value, send = (yield waits_for), inner.send
        except BaseException as fault:
            value, send = fault, inner.throw


async def at_each_wait(do):
    """Repeats the work, cancelled at the first wait, the second, and so on up to the last.
    Returns the number of runs. Before Python 3.12, redis-py's own `asyncio.wait_for` may overhear a cancellation."""
    for n in range(1, 200):
        async def run(n=n):
            return await cancelled_at(n, do(n))

        (waited,) = await asyncio.gather(asyncio.create_task(run()), return_exceptions=True)
        if isinstance(waited, int) and waited < n:
            return n
        assert isinstance(waited, (int, asyncio.CancelledError)), repr(waited)
    raise AssertionError("it never ends")


def asynchronously(deployment, work):
    path = deployment.redis.connection_pool.connection_kwargs["path"]

    async def run():
        async with (
            redis.asyncio.Redis(unix_socket_path=path) as own,
            AsyncClient(own, deployment.namespace) as client,
        ):
            await asyncio.wait_for(work(client), 2 * PATIENCE_S)

    asyncio.run(run())


async def until(condition):
    for _ in range(PATIENCE_S * 100):
        if await condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not come about")


def verbs(client, delivery, n):
    """Everything that is awaited."""
    topic, group = client.topic("orders"), client.group("user-5")
    later = Message("other", b"x", id=f"later-{n}", after=HOUR)

    async def every(items):
        return [item async for item in items]

    return {
        "put": lambda: client.put(later), "put_many": lambda: client.put_many([later]),
        "cancel": lambda: client.cancel("other", "a"), "reschedule": lambda: client.reschedule("other", "a", after=HOUR),
        "get": lambda: client.get("orders", "order-1"), "reserve": lambda: client.reserve(["orders"]),
        "reserve that waits": lambda: client.reserve(["orders"], wait=timedelta(milliseconds=5)),
        "ack": lambda: client.ack([delivery.receipt]), "bury": lambda: client.bury([delivery.receipt], "why"),
        "release": lambda: client.release([delivery.receipt], HOUR), "extend": lambda: client.extend([delivery.receipt]),
        "delivery.ack": delivery.ack, "delivery.release": lambda: delivery.release(HOUR),
        "delivery.bury": lambda: delivery.bury("why"), "delivery.extend": delivery.extend,
        "count": topic.count, "policy": topic.policy, "set_policy": lambda: topic.set_policy(Policy(max_attempts=5)),
        "replay": lambda: topic.replay(["a"]), "replay_all": topic.replay_all, "purge": lambda: topic.purge("dead"),
        "promote": topic.promote, "group.promote": group.promote,
        "list": lambda: every(topic.list()), "group.list": lambda: every(group.list()),
        "group.cancel": group.cancel, "group.shift": lambda: group.shift(HOUR),
    }


@pytest.mark.parametrize("verb", verbs(AsyncClient(redis.asyncio.Redis()), AsyncDelivery("t", "x"), 0))
def test_a_call_that_is_given_up_anywhere_leaves_a_client_that_works_and_nothing_leased_by_nobody(deployment, verb):
    async def work(client):
        await client.topic("orders").set_policy(Policy(lease=timedelta(hours=1)))

        async def do(n):
            await verbs(client, deliveries[n - 1], n)[verb]()

        deliveries = []
        for n in range(60):
            await client.put(Message("held", b"x", id=f"held-{n}"))
            deliveries += await client.reserve(["held"], lease=HOUR)
        await client.put(Message("orders", b"x", id="order-1"))
        assert await at_each_wait(do) >= 2
        assert (await client.put(Message("orders", b"x", id="after"))).accepted
        numbers = await client.topic("orders").count()
        # The last reserve was not given up: the caller has a message.
        assert numbers.leased == verb.startswith("reserve")

    asynchronously(deployment, work)


@pytest.mark.parametrize("verb", ["ack", "release", "bury"])
def test_a_settlement_that_is_given_up_anywhere_leaves_nothing_leased(deployment, verb):
    async def work(client):
        settled = {"ack": (), "release": (HOUR,), "bury": ("why",)}[verb]
        await client.put_many([Message("orders", b"x") for _ in range(40)])
        async with AsyncConsumer(client, ["orders"], concurrency=40, lease=SECOND) as consumer:
            held = [await anext(consumer) for _ in range(40)]

            async def do(n):
                return await getattr(held.pop(), verb)(*settled)

            tries = await at_each_wait(do)
            assert tries >= 2

            async def is_settled():
                return (await client.topic("orders").count()).leased == 40 - tries

            await until(is_settled)
            assert len(consumer._consuming._held) == 40 - tries
        assert (await client.topic("orders").count()).leased == 0

    asynchronously(deployment, work)


def test_400_acks_without_any_time_leave_nothing_leased(deployment):
    async def work(client):
        await client.put_many([Message("orders", b"x") for _ in range(400)])
        consumer = AsyncConsumer(client, ["orders"], concurrency=400, lease=SECOND)
        held = [await anext(consumer) for _ in range(400)]
        for delivery in held:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(asyncio.ensure_future(delivery.ack()), 0.000001)
        await asyncio.wait_for(consumer.stop(), PATIENCE_S)
        assert (await client.topic("orders").count()).leased == 0

    asynchronously(deployment, work)


def test_a_stop_that_is_given_up_anywhere_gives_everything_back(deployment):
    async def work(client):
        async def do(n):
            await client.put_many([Message("orders", b"x") for _ in range(4)])
            consumer = AsyncConsumer(client, ["orders"], concurrency=4, lease=HOUR)
            await anext(consumer)
            await cancelled_at(n, consumer.stop())

        for n in range(1, 6):
            await asyncio.gather(asyncio.create_task(do(n)), return_exceptions=True)

            async def is_back():
                return (await client.topic("orders").count()).leased == 0

            await until(is_back)
            await client.topic("orders").purge("ready")

    asynchronously(deployment, work)


def test_a_next_message_that_is_given_up_anywhere_is_handed_out_or_given_back(deployment):
    async def work(client):
        await client.put_many([Message("orders", b"x", id=f"order-{n}") for n in range(5)])

        async def do(n):
            async with AsyncConsumer(client, ["orders"], concurrency=2, lease=HOUR) as consumer:
                await anext(consumer)

        await at_each_wait(do)

        async def is_back():
            return (await client.topic("orders").count()).ready == 5

        await until(is_back)
        assert {found.attempt async for found in client.topic("orders").list("ready")} == {0}

    asynchronously(deployment, work)


def test_a_stop_that_meets_a_reserve_under_way_returns_and_leaves_nothing_leased(deployment):
    async def work(client):
        for steps in range(40):
            await client.put(Message("orders", b"x", id="order-1", replace=True))
            consumer = AsyncConsumer(client, ["orders"], lease=HOUR)
            waiting = asyncio.create_task(consumer._consuming.next())
            for _ in range(steps):  # a little later each time
                await asyncio.sleep(0)
            await asyncio.wait_for(consumer.stop(), PATIENCE_S)
            await waiting
            assert (await client.topic("orders").count()).leased == 0

    asynchronously(deployment, work)


def test_a_worker_whose_stop_is_given_up_ends_all_the_same(deployment):
    async def work(client):
        begun, go_on = asyncio.Event(), asyncio.Event()

        async def handle(delivery):
            begun.set()
            await go_on.wait()

        worker = AsyncWorker(client, {"orders": handle})
        await worker.start()
        await client.put(Message("orders", b"x"))
        await begun.wait()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(worker.stop(), 0.01)
        go_on.set()
        await asyncio.wait_for(worker.stop(), PATIENCE_S)
        assert (await client.topic("orders").count()).delivered == 1

    asynchronously(deployment, work)


def test_a_put_that_is_given_up_before_it_was_sent_is_not_sent(deployment):
    async def work(client):
        await client.put(Message("orders", b"x", id="first", after=HOUR))
        deployment.redis.client_pause(300)
        under_way = asyncio.create_task(client.put(Message("orders", b"x", id="under-way", after=HOUR)))
        await asyncio.sleep(0.01)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(client.put(Message("orders", b"x", id="order-1", after=HOUR)), 0.05)
        assert (await client.cancel("orders", "order-1")).word == "unknown"
        assert (await under_way).accepted
        assert await client.get("orders", "order-1") is None
        assert (await client.topic("orders").count()).accepted == 2

    asynchronously(deployment, work)


def test_a_cancel_finds_the_put_that_was_asked_for_before_it(deployment):
    async def work(client):
        await client.put(Message("orders", b"x", id="first", after=HOUR))
        for shard in [2, 0, 1]:  # the put asks another shard first
            deployment.call("grow", shard, shard, "2,3", layout=2)
        for n in range(20):
            order = Message("orders", b"x", id=f"order-{n}", after=HOUR)
            calls = [client.cancel("orders", "other"), client.put(order), client.cancel("orders", f"order-{n}")]
            assert [answer.word for answer in await asyncio.gather(*calls)] == ["unknown", "stored", "cancelled"]

    asynchronously(deployment, work)


def test_what_settles_one_message_goes_in_the_order_in_which_it_was_asked_for(deployment):
    async def work(client):
        for _ in range(10):
            await client.put_many([Message("orders", b"x", group="user-5") for _ in range(2)])
            one, other = [(await client.reserve(["orders"]))[0].receipt for _ in range(2)]
            calls = [client.release([one], HOUR), client.ack([other]), client.release([other], HOUR)]
            answers = await asyncio.gather(client.topic("orders").policy(), *calls)
            assert [answer.word for (answer,) in answers[1:]] == ["delayed", "delivered", "expired"]

    asynchronously(deployment, work)


def test_the_cancel_of_a_group_finds_what_was_put_into_it_before(deployment):
    async def work(client):
        await client.put(Message("orders", b"x", id="first", after=HOUR))
        puts = [client.put(Message("orders", b"x", group="user-5", after=HOUR)) for _ in range(20)]
        *_, cancelled = await asyncio.gather(*puts, client.group("user-5").cancel())
        assert cancelled.cancelled == 20

    asynchronously(deployment, work)


def test_a_client_that_was_closed_and_one_of_another_loop_are_refused_by_name(deployment):
    path = deployment.redis.connection_pool.connection_kwargs["path"]
    client = AsyncClient(redis.asyncio.Redis(unix_socket_path=path), deployment.namespace)
    assert asyncio.run(client.put(Message("orders", b"x"))).accepted
    for call in (lambda: client.put(Message("orders", b"x")), lambda: client.reserve(["orders"]), client.topic("orders").policy):
        with pytest.raises(OtherLoop, match="another event loop"):
            asyncio.run(call())
    closed = Client(deployment.redis, deployment.namespace)
    closed.put(Message("orders", b"x"))
    closed.close()
    for again in (
        lambda: closed.put(Message("orders", b"x")), lambda: closed.reserve(["orders"]),
        lambda: closed.reserve(["orders"], wait=SECOND), closed.topic("orders").count, closed.topic("orders").policy,
    ):
        with pytest.raises(ClientClosed, match="make another"):
            again()
    closed.close()
