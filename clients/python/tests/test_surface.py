"""Everything but putting and reserving, by both clients: groups, looking, dead letters, policies."""

import asyncio
import inspect
from datetime import datetime, timedelta, timezone

import pytest
import redis
import redis.asyncio
from deployment import Deployment

from delayq import AsyncClient, Backoff, Client, InvalidArgument, Message, Policy, State, Word

FAR = datetime(2100, 1, 1, tzinfo=timezone.utc)
FAR_MS = 4_102_444_800_000
HOUR = timedelta(hours=1)
HOUR_MS = 3_600_000


class Driven:
    """Calls the asynchronous client, or an object of that client, like the blocking one."""

    def __init__(self, core, run):
        self._core, self._run = core, run

    def __getattr__(self, verb):
        def call(*args, **options):
            answer = getattr(self._core, verb)(*args, **options)
            if inspect.iscoroutine(answer):
                return self._run(answer)
            return self._run(self._listed(answer)) if inspect.isasyncgen(answer) else Driven(answer, self._run)

        return call

    @staticmethod
    async def _listed(items):
        return [item async for item in items]


@pytest.fixture
def deployment(connection):
    return Deployment(connection, shards=4)


@pytest.fixture(params=["blocking", "asynchronous"])
def client(request, deployment, redis_socket):
    if request.param == "blocking":
        with Client(deployment.redis, deployment.namespace) as client:
            yield client
        return
    loop = asyncio.new_event_loop()
    own = redis.asyncio.Redis(unix_socket_path=redis_socket)
    client = AsyncClient(own, deployment.namespace)
    yield Driven(client, loop.run_until_complete)
    loop.run_until_complete(client.close())
    loop.run_until_complete(own.aclose())
    loop.close()


def test_one_message_is_found_with_all_that_it_was_put_with(client):
    backoff = Backoff.exponential(timedelta(seconds=1), timedelta(minutes=1))
    client.put(Message(
        "orders", b"payload", id="order-1", at=FAR, group="user-5", headers={"kind": "gift"}, expires=FAR + HOUR,
        max_attempts=3, backoff=backoff,
    ))
    found = client.get("orders", "order-1", "user-5")
    assert (found.topic, found.id, found.state, found.payload) == ("orders", "order-1", State.DELAYED, b"payload")
    assert (found.due, found.expires, found.group) == (FAR, FAR + HOUR, "user-5")
    assert (found.headers, found.max_attempts, found.backoff) == ((("kind", "gift"),), 3, backoff)
    assert client.get("orders", "order-1") is None  # its shard is its group's
    client.cancel("orders", "order-1", "user-5")
    assert client.get("orders", "order-1", "user-5").state is State.CANCELLED


def test_a_topic_is_listed_by_time_over_all_shards(client):
    client.put_many([Message("orders", b"x", id=f"order-{n}", at=FAR + n * HOUR) for n in range(150)])
    assert [found.id for found in client.topic("orders").list()] == [f"order-{n}" for n in range(150)]
    some = client.topic("orders").list(since=FAR + HOUR, until=FAR + 3 * HOUR)
    assert [found.due for found in some] == [FAR + n * HOUR for n in (1, 2, 3)]
    assert list(client.topic("orders").list("dead")) == list(client.topic("other").list()) == []


def test_ready_and_leased_messages_are_listed(client):
    client.put_many([Message("orders", b"x", id=f"order-{n}") for n in range(3)])
    (leased,) = client.reserve(["orders"], 1)
    assert [found.id for found in client.topic("orders").list("leased")] == [leased.id]
    ready = {found.id for found in client.topic("orders").list("ready")}
    assert ready == {"order-0", "order-1", "order-2"} - {leased.id}


def test_what_cannot_be_read_is_listed_with_the_reason(client, deployment):
    client.put(Message("orders", b"x", id="order-1", at=FAR))
    for shard in range(4):
        if deployment.redis.exists(key := f"{{{deployment.namespace}:{shard}}}:m:1:order-1"):
            deployment.redis.setrange(key, 0, b"\x07")
    (found,) = client.topic("orders").list()
    assert (found.state, "newer" in found.reason) == (State.NEWER, True)


def test_the_numbers_of_a_topic_are_those_of_all_shards(client):
    client.put_many([Message("orders", b"x", at=FAR + n * HOUR, id=f"order-{n}") for n in range(20)])
    client.put_many([Message("orders", b"x") for _ in range(8)])
    client.cancel("orders", "order-0")
    client.reserve(["orders"])
    numbers = client.topic("orders").count()
    assert (numbers.delayed, numbers.ready, numbers.leased) == (19, 7, 1)
    assert (numbers.accepted, numbers.cancelled, numbers.delivered) == (28, 1, 0)
    assert FAR <= numbers.next_due <= FAR + HOUR and client.topic("other").count().accepted == 0


def test_a_group_is_listed_shifted_and_cancelled_as_a_whole(client):
    client.put_many([Message("orders", b"x", id=f"o-{n}", at=FAR, group="user-5") for n in range(120)])
    client.put(Message("mails", b"x", id="m-1", at=FAR, group="user-5"))
    client.put(Message("mails", b"x", id="other", at=FAR, group="user-6"))
    assert {found.topic for found in client.group("user-5").list()} == {"orders", "mails"}
    shifted = client.group("user-5").shift(-HOUR, token="once")
    assert (shifted.moved, shifted.passed, shifted.busy) == (121, 0, False)
    assert client.group("user-5").shift(-HOUR, token="once").moved == 0
    assert [found.due for found in client.group("user-5").list()] == [FAR - HOUR] * 121
    cancelled = client.group("user-5").cancel()
    assert (cancelled.cancelled, cancelled.leased, cancelled.failed) == (121, 0, 0)
    assert list(client.group("user-5").list()) == [] and len(list(client.group("user-6").list())) == 1


def test_a_group_is_listed_shifted_and_cancelled_in_one_topic_and_keeps_the_others(client):
    client.put_many([Message(topic, b"x", id="k1", at=FAR, group="user-5") for topic in ("orders", "reminders")])
    orders, reminders = (client.group("user-5", topic=topic) for topic in ("orders", "reminders"))
    assert [found.topic for found in orders.list()] == ["orders"]
    assert reminders.shift(HOUR).moved == 1 and orders.cancel().cancelled == 1
    assert [(found.topic, found.due) for found in client.group("user-5").list()] == [("reminders", FAR + HOUR)]
    assert client.group("user-5", topic="nobody").cancel().cancelled == 0


def test_a_group_is_found_where_it_was_before_the_deployment_grew(client, deployment):
    client.put_many([Message("orders", b"x", id=f"before-{n}", at=FAR, group="user-1") for n in range(3)])
    for shard in [*range(4, 9), *range(4)]:
        deployment.call("grow", shard, shard, "4,9", layout=2)
    client.put_many([Message("orders", b"x", id=f"after-{n}", at=FAR, group="user-1") for n in range(3)])
    assert len({found.shard for found in client.group("user-1").list()}) == 2
    assert client.get("orders", "before-0", "user-1").shard != client.get("orders", "after-0", "user-1").shard
    assert client.group("user-1").shift(HOUR).moved == 6
    assert client.group("user-1").cancel().cancelled == 6


def test_dead_letters_are_listed_replayed_and_purged(client):
    client.put_many([Message("orders", b"x", id=f"order-{n}") for n in range(20)])
    while found := client.reserve(["orders"], 20):
        client.bury([one.receipt for one in found], "no such user" if len(found) % 2 else "bad address")
    dead = list(client.topic("orders").list("dead"))
    assert len(dead) == 20 and {one.reason for one in dead} <= {"no such user", "bad address"}
    assert [one.at_ms for one in dead] == sorted(one.at_ms for one in dead)
    outcomes = client.topic("orders").replay([dead[0].id, "unknown"], delay=HOUR)
    assert [outcome.word for outcome in outcomes] == [Word.DELAYED, Word.UNKNOWN]
    (again,) = client.topic("orders").replay([dead[0].id])
    assert (again.word, again.state) == (Word.NOT_DEAD, State.DELAYED)
    bad = sum(one.reason == "bad address" for one in dead[1:])
    orders = client.topic("orders")
    assert orders.replay_all(reason="bad address") == bad
    assert orders.replay_all(max_messages=0) == 0
    assert orders.count().dead == 19 - bad
    assert orders.purge("dead", since=datetime.now(timezone.utc) + HOUR) == 0
    assert orders.purge("dead") == 19 - bad
    assert orders.purge("ready") + orders.purge("delayed") == bad + 1
    assert (orders.count().dead, orders.count().purged) == (0, 20)


def test_a_policy_is_changed_setting_by_setting(client, deployment):
    assert client.topic("orders").policy() == Policy()
    backoff = Backoff.steps(timedelta(seconds=1), timedelta(seconds=5))
    first = client.topic("orders").set_policy(Policy(max_attempts=3, lease=timedelta(seconds=90), backoff=backoff))
    assert first == Policy(max_attempts=3, lease=timedelta(seconds=90), backoff=backoff)
    kept = client.topic("orders").set_policy(Policy(history=500, history_for=timedelta(days=1)))
    assert (kept.history, kept.history_for) == (500, timedelta(days=1))
    client.topic("orders").set_policy(Policy(), reset=["history", "history_for"])
    change = Policy(rate=100.0, paused=True, repeats="refuse")
    second = client.topic("orders").set_policy(change, reset=["max_attempts"])
    assert second == Policy(lease=timedelta(seconds=90), backoff=backoff, rate=100.0, paused=True, repeats="refuse")
    described = [sorted(deployment.call("describe", shard, "orders")[1:]) for shard in range(4)]
    assert described == described[:1] * 4
    numbers = client.topic("orders").count()
    assert (numbers.rate, numbers.paused) == (100.0, 4)
    client.put(Message("orders", b"x"))
    assert client.reserve(["orders"]) == []
    client.topic("orders").set_policy(Policy(paused=False))
    assert client.topic("orders").policy().paused is None and len(client.reserve(["orders"])) == 1


def test_one_group_is_paused_while_the_others_go_on(client):
    orders = client.topic("orders")
    orders.pause_group("a")
    orders.pause_group("a")
    assert list(orders.paused_groups()) == ["a"] and isinstance(orders.paused_groups()["a"], datetime)
    for n, group in enumerate("aab"):
        client.put(Message("orders", b"x", id=f"m{n}", group=group))
    (other,) = client.reserve(["orders"], 10)
    assert other.id == "m2"
    assert [(one.held, one.paused) for one in orders.list("ready")] == [(True, True)] * 2
    orders.resume_group("a")
    assert orders.paused_groups() == {}
    assert [one.id for one in client.reserve(["orders"], 10)] == ["m0", "m1"]
    with pytest.raises(InvalidArgument):
        orders.pause_group("")


def test_outcomes_carry_the_id_and_times_as_datetimes(client):
    put = client.put(Message("orders", b"x", id="order-1", at=FAR))
    assert (put.word, put.id, put.time, put.accepted) == (Word.STORED, "order-1", FAR, True)
    moved = client.reschedule("orders", "order-1", by=-HOUR, expected=FAR)
    assert (moved.word, moved.id, moved.time, moved.old_ms) == ("delayed", "order-1", FAR - HOUR, FAR_MS)
    assert client.reschedule("orders", "order-1", at=FAR, expected=FAR).word is Word.CHANGED
    cancelled = client.cancel("orders", "order-1")
    assert (cancelled.word, cancelled.id) == (Word.CANCELLED, "order-1")
    again = client.put(Message("orders", b"x", id="order-1", at=FAR))
    assert (again.word, again.state, again.accepted) == (Word.EXISTS, State.CANCELLED, False)
    generated = client.put(Message("orders", b"x"))
    (delivery,) = client.reserve(["orders"])
    acked = client.ack([delivery.receipt])[0]
    assert acked.id == delivery.id == generated.id and acked.word is Word.DELIVERED
