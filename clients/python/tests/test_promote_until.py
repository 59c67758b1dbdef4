"""A reserve that first promotes what is due until a time."""

import asyncio
from datetime import datetime, timedelta, timezone

import pytest
import redis.asyncio

from delayq import AsyncClient, Client, Message, Policy, ScriptError
from delayq.testing import isolated

FAR = datetime(2100, 1, 1, tzinfo=timezone.utc)
MINUTE = timedelta(minutes=1)


@pytest.fixture(params=[1, 7])
def queue(request, connection):
    with isolated(connection, shards=request.param) as queue:
        yield queue


@pytest.fixture(params=["blocking", "asynchronous"])
def reserve(request, queue, redis_socket):
    """Returns the ids of a reserve."""
    if request.param == "blocking":
        return lambda *args, **options: [one.id for one in queue.client.reserve(*args, **options)]

    async def reserved(*args, **options):
        async with (
            redis.asyncio.Redis(unix_socket_path=redis_socket) as connection,
            AsyncClient(connection, queue.namespace) as client,
        ):
            return [one.id for one in await client.reserve(*args, **options)]

    return lambda *args, **options: asyncio.run(reserved(*args, **options))


def put(queue, count, topic="orders"):
    queue.client.put_many([Message(topic, b"x", id=f"{topic}-{n}", at=FAR + n * MINUTE) for n in range(count)])


def states(queue, topic="orders"):
    numbers = queue.client.topic(topic).count()
    return numbers.delayed, numbers.ready, numbers.leased


def test_the_earliest_due_of_all_shards_are_handed_out_first_and_no_more_are_promoted(queue, reserve):
    put(queue, 40)
    assert reserve(["orders"], 5) == []
    assert reserve(["orders"], promote_until=FAR + 9 * MINUTE) == ["orders-0"]
    assert states(queue) == (39, 0, 1)
    assert reserve(["orders"], 5, promote_until=FAR + 9 * MINUTE) == [f"orders-{n}" for n in range(1, 6)]
    assert states(queue) == (34, 0, 6)
    assert reserve(["orders"], 100, promote_until=FAR + 9 * MINUTE) == [f"orders-{n}" for n in range(6, 10)]
    assert (reserve(["orders"], 100, promote_until=FAR + 9 * MINUTE), states(queue)) == ([], (30, 0, 10))


def test_ready_messages_come_before_any_is_promoted(queue, reserve):
    put(queue, 5)
    queue.client.put_many([Message("orders", b"x", id=f"ready-{n}") for n in range(4)])
    assert {*reserve(["orders"], 3, promote_until=FAR)} < {f"ready-{n}" for n in range(4)}
    assert states(queue) == (5, 1, 3)
    *ready, promoted = reserve(["orders"], 2, promote_until=FAR + MINUTE)
    assert ready[0].startswith("ready-") and promoted == "orders-0"


def test_topics_are_promoted_by_their_priority(queue, reserve):
    put(queue, 3)
    put(queue, 3, "mails")
    assert reserve(["mails", "orders"], 4, promote_until=FAR + MINUTE) == ["mails-0", "mails-1", "orders-0", "orders-1"]
    assert (states(queue), states(queue, "mails")) == ((1, 0, 2), (1, 0, 2))


def test_more_than_a_call_takes_are_promoted_in_steps(queue, reserve):
    put(queue, 1200)
    assert reserve(["orders"], 1100, promote_until=FAR + 1050 * MINUTE) == [f"orders-{n}" for n in range(1051)]
    assert states(queue) == (149, 0, 1051)


def test_cancelled_messages_and_a_time_in_the_past_promote_nothing(queue, reserve):
    put(queue, 3)
    queue.client.cancel("orders", "orders-0")
    assert reserve(["orders"], 5, promote_until=datetime.now(timezone.utc) - MINUTE) == []
    assert reserve(["orders"], 1, promote_until=FAR + 9 * MINUTE) == ["orders-1"]


def test_a_wait_follows_only_if_nothing_was_promoted(queue, reserve):
    put(queue, 1)
    assert reserve(["orders"], wait=timedelta(hours=1), promote_until=FAR) == ["orders-0"]
    assert reserve(["orders"], wait=timedelta(milliseconds=10), promote_until=FAR) == []


def test_messages_that_are_promoted_and_not_handed_out_are_ready_for_everyone(connection, queue, monkeypatch):
    put(queue, 3)
    with Client(connection, queue.namespace) as client:
        whole = client._core._round

        async def broken(*args):
            if states(queue)[1] > 0:
                raise ScriptError("WRONGTYPE broken")
            return await whole(*args)

        monkeypatch.setattr(client._core, "_round", broken)
        with pytest.raises(ScriptError, match="WRONGTYPE"):
            client.reserve(["orders"], 2, promote_until=FAR + 9 * MINUTE)
    assert states(queue) == (1, 2, 0)
    assert {one.id for one in queue.drain({"orders": lambda delivery: None})} == {f"orders-{n}" for n in range(3)}


def test_of_a_paused_topic_no_more_are_promoted_than_there_is_room_for(queue, reserve):
    put(queue, 20)
    queue.client.topic("orders").set_policy(Policy(paused=True))
    for _ in range(3):
        assert reserve(["orders"], 3, promote_until=FAR + 19 * MINUTE) == []
    assert states(queue) == (17, 3, 0)
