"""The helpers for tests, by both clients: isolated deployments, what is pending, promotions and drains."""

import asyncio
import time
from datetime import datetime, timedelta, timezone

import pytest
import redis
import redis.asyncio
from test_arguments import ODD

from delayq import Backoff, Bury, InvalidArgument, Message, Policy, Word
from delayq.testing import Deployment, NotDrained, NotRemovable, Pending, isolated, isolated_async

FAR = datetime(2100, 1, 1, tzinfo=timezone.utc)
HOUR = timedelta(hours=1)


class Blocking:
    """A deployment of the blocking client."""

    def __init__(self, socket, shards):
        self._connection = redis.Redis(unix_socket_path=socket)
        self._isolated = isolated(self._connection, shards=shards)
        self.made = self._isolated.__enter__()
        self.put = self.made.client.put
        self.pending, self.promote_all, self.drain = self.made.pending, self.made.promote_all, self.made.drain
        self.reserve, self.policy = self.made.client.reserve, lambda policy: self.made.client.topic("orders").set_policy(policy)

    def end(self):
        self._isolated.__exit__(None, None, None)
        self._connection.close()


class Asynchronous:
    """A deployment of the asynchronous client."""

    def __init__(self, socket, shards):
        self._loop = asyncio.new_event_loop()
        self._isolated = isolated_async(redis.asyncio.Redis(unix_socket_path=socket), shards=shards)
        self.made = self._run(self._isolated.__aenter__())

    def _run(self, work):
        return self._loop.run_until_complete(work)

    def __getattr__(self, verb):
        of = self.made.client if verb in ("put", "reserve") else self.made
        return lambda *args, **options: self._run(getattr(of, verb)(*args, **options))

    def policy(self, policy):
        self._run(self.made.client.topic("orders").set_policy(policy))

    def drain(self, handlers, **options):
        def awaited(handler):
            async def handle(delivery):
                answer = handler(delivery)
                return await answer if asyncio.iscoroutine(answer) else answer

            return handle

        return self._run(self.made.drain({topic: awaited(handler) for topic, handler in handlers.items()}, **options))

    def end(self):
        self._run(self._isolated.__aexit__(None, None, None))
        self._loop.close()


@pytest.fixture(params=[(kind, shards) for kind in (Blocking, Asynchronous) for shards in (1, 7)], ids=str)
def queue(request, redis_socket):
    kind, shards = request.param
    queue = kind(redis_socket, shards)
    yield queue
    queue.end()


def put(queue, id, after=HOUR, topic="orders", **options):
    assert queue.put(Message(topic, id.encode(), id=id, after=after, **options)).accepted


def test_pending_messages_are_shown_in_the_order_of_due_times_with_all_that_a_test_asserts(queue):
    queue.put(Message("orders", b"b", id="b", at=FAR + HOUR, group="user-5", headers={"kind": "gift"}))
    queue.put(Message("orders", b"a", id="a", at=FAR))
    queue.put(Message("orders", b"now", id="now"))
    queue.put(Message("mails", b"x", id="x", at=FAR))
    now, *pending = queue.pending("orders")
    assert (now.id, now.payload) == ("now", b"now") and abs(now.due - datetime.now(timezone.utc)) < HOUR
    assert pending == [
        Pending("a", FAR, b"a", None, ()), Pending("b", FAR + HOUR, b"b", "user-5", (("kind", "gift"),)),
    ]  # fmt: skip


def test_all_of_a_topic_is_promoted_even_what_became_due_since(queue):
    put(queue, "soon", timedelta(milliseconds=1))
    put(queue, "later")
    put(queue, "mail", topic="mails")
    time.sleep(0.01)  # it has to become due: no timer notices
    assert (queue.promote_all("orders"), queue.promote_all("orders"), queue.promote_all("nothing")) == (2, 0, 0)
    assert {one.id for one in queue.drain({"orders": lambda delivery: None})} == {"soon", "later"}
    assert [one.id for one in queue.pending("mails")] == ["mail"]


def test_a_drain_delivers_everything_in_the_order_of_due_times_with_what_handlers_put(queue):
    for n in (3, 1, 2):
        put(queue, f"order-{n}", n * HOUR)

    def handle(delivery):
        if delivery.id == "order-1":
            return queue.made.client.put(Message("mails", b"paid", id="mail", after=timedelta(minutes=90)))

    drained = queue.drain({"orders": handle, "mails": lambda delivery: None})
    assert [(one.topic, one.id, one.word) for one in drained[:2]] == [
        ("orders", "order-1", Word.DELIVERED), ("mails", "mail", Word.DELIVERED)
    ]
    assert [one.id for one in drained[2:]] == ["order-2", "order-3"] and drained[2].payload == b"order-2"
    assert queue.pending("orders") == queue.drain({"orders": handle}) == []


def test_a_drain_settles_as_a_worker_does_and_waits_for_no_back_off(queue):
    queue.policy(Policy(max_attempts=3, backoff=Backoff.fixed(timedelta(hours=5))))
    for id in ("failing", "wrong", "own"):
        put(queue, id)

    def handle(delivery):
        if delivery.id == "own":
            return delivery.bury("by itself")
        raise Bury("no such order") if delivery.id == "wrong" else ValueError("always")

    drained = queue.drain({"orders": handle})
    ends = {id: [(one.attempt, one.word) for one in drained if one.id == id] for id in ("failing", "wrong", "own")}
    assert ends["failing"] == [(1, Word.DELAYED), (2, Word.DELAYED), (3, Word.BURIED)]
    assert ends["wrong"] == ends["own"] == [(1, Word.BURIED)]
    assert {str(one.error) for one in drained} == {"always", "no such order", "None"}


def test_a_handler_that_puts_for_ever_is_named(queue):
    put(queue, "order-0")

    def handle(delivery):
        return queue.made.client.put(Message("orders", b"x", id=f"order-{int(delivery.id[6:]) + 1}", after=HOUR))

    with pytest.raises(NotDrained, match="orders is not drained after 5 deliveries, order-5 is next: .*for ever") as left:
        queue.drain({"orders": handle}, max_deliveries=5)
    assert [one.id for one in left.value.drained] == [f"order-{n}" for n in range(5)]
    assert [one.id for one in queue.pending("orders")] == ["order-5"]


def test_a_handler_that_fails_for_ever_is_named_with_its_error(queue):
    queue.policy(Policy(max_attempts=0))
    put(queue, "order-0")
    with pytest.raises(NotDrained, match="after 7 deliveries, order-0 is next.*KeyError\\('no key'\\)"):
        queue.drain({"orders": lambda delivery: {}["no key"]}, max_deliveries=7)


def test_a_message_that_cannot_be_delivered_is_named(queue):
    put(queue, "order-1", timedelta(0))
    queue.reserve(["orders"])
    with pytest.raises(NotDrained, match="orders has leased messages .1.: before a drain, settle"):
        queue.drain({"orders": print})


def test_a_paused_topic_is_named(queue):
    put(queue, "order-1")
    queue.policy(Policy(paused=True))
    with pytest.raises(NotDrained, match="orders has messages .1. that cannot be reserved: is it paused"):
        queue.drain({"orders": print})


def test_what_ends_the_test_is_not_taken_for_a_failure_of_the_handler(queue):
    put(queue, "order-1")
    with pytest.raises(pytest.fail.Exception, match="enough"):
        queue.drain({"orders": lambda delivery: pytest.fail("enough")})


def test_a_deployment_is_removed_whole_and_nothing_of_others(connection, redis_socket):
    with isolated(f"unix://{redis_socket}", shards=3) as other:
        other.client.put(Message("orders", b"x", id="kept", at=FAR))
        connection.set("foreign", "1")
        before = sorted(connection.keys())
        with isolated(connection, shards=3) as queue:
            queue.client.put_many([Message("orders", b"x", id=f"o-{n}", after=HOUR, group=f"g-{n}") for n in range(3000)])
            queue.client.topic("orders").set_policy(Policy(history=10))
            with pytest.raises(ZeroDivisionError), isolated(connection) as failing:
                failing.client.put(Message("orders", b"x"))
                1 / 0
            assert queue.namespace != failing.namespace != other.namespace
        assert sorted(connection.keys()) == before
        assert [one.id for one in other.pending("orders")] == ["kept"]
    assert connection.keys() == [b"foreign"]


def test_a_user_who_could_not_remove_a_deployment_is_refused_and_nothing_is_created(connection, redis_socket):
    connection.acl_setuser("builder", enabled=True, nopass=True, keys=["*"], commands=["+@all", "-scan"])
    try:
        with pytest.raises(NotRemovable, match="none was created: .*scan"):
            with isolated(redis.Redis(unix_socket_path=redis_socket, username="builder", password="x")):
                raise AssertionError("it was created")
    finally:
        connection.acl_deluser("builder")
    assert connection.keys() == []


def test_a_fixture_takes_milliseconds(connection):
    with isolated(connection):
        pass
    begun_s = time.monotonic()
    for _ in range(20):
        with isolated(connection) as queue:
            queue.client.put(Message("orders", b"x", after=HOUR))
    assert (time.monotonic() - begun_s) / 20 < 0.2  # about 0.003 s on a quiet machine


@pytest.mark.parametrize("shards", [value for value in ODD if value is not None])
def test_odd_numbers_of_shards_are_refused_by_name(connection, shards):
    with pytest.raises(InvalidArgument, match="shards must be"), isolated(connection, shards=shards):
        raise AssertionError("it was created")


def test_a_redis_that_is_none_or_of_the_other_client_is_refused_by_name(redis_socket, cluster):
    for odd in (None, 5, [], object(), redis.asyncio.Redis(unix_socket_path=redis_socket), cluster.url):
        with pytest.raises(InvalidArgument, match="redis"), isolated(odd):
            raise AssertionError("it was created")

    async def made(odd):
        async with isolated_async(odd):
            raise AssertionError("it was created")

    for odd in (None, 5, [], object(), redis.Redis(unix_socket_path=redis_socket), cluster.url):
        with pytest.raises(InvalidArgument, match="redis"):
            asyncio.run(made(odd))


def test_odd_arguments_of_the_helpers_are_refused_by_name(connection):
    with isolated(connection) as queue:
        for odd in ODD:
            if odd != 2**31:
                with pytest.raises(InvalidArgument, match="max_deliveries"):
                    queue.drain({"orders": print}, max_deliveries=odd)
            for handlers in (odd, {"orders": odd}):
                with pytest.raises(InvalidArgument, match="handlers"):
                    queue.drain(handlers)
        for call in (queue.pending, queue.promote_all):
            for odd in (None, 5, b"orders", "", "a b"):
                with pytest.raises(InvalidArgument, match="topic"):
                    call(odd)
        with pytest.raises(InvalidArgument, match="topic"):
            queue.drain({"a b": print})
        with pytest.raises(InvalidArgument, match="generator"):
            queue.drain({"orders": lambda delivery: (yield)})
        with pytest.raises(InvalidArgument, match="Client"):
            Deployment(None)
