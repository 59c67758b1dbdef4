"""What is refused before anything is sent, and by which name."""

from datetime import datetime, timedelta, timezone

import pytest
import redis
import redis.asyncio

from delayq import AsyncClient, AsyncWorker, Backoff, Client, Consumer, InvalidArgument, Message, Policy
from delayq.delivery import Receipt

UTC_2030 = datetime(2030, 1, 1, tzinfo=timezone.utc)
MINUTE = timedelta(minutes=1)


@pytest.fixture(scope="module")
def client():
    """Nothing is connected to before there is something to send."""
    return Client(redis.Redis(port=1))


REFUSED = {
    "seconds as milliseconds": (lambda c: Message("t", b"", at=1_800_000_000), "at is 1970.* seconds .* 1800000000000"),
    "an expiry in seconds": (lambda c: Message("t", b"", expires=1_800_000_000), "expires is 1970"),
    "a small number of ms": (lambda c: Message("t", b"", at=60_000), "at is 1970.*past_ok"),
    "a reschedule to seconds": (lambda c: c.reschedule("t", "a", at=1_800_000_000), "at is 1970"),
    "a range in seconds": (lambda c: list(c.topic("t").list(since=1_800_000_000)), "since is 1970"),
    "a time without a zone": (lambda c: Message("t", b"", at=datetime(2030, 1, 1)), "at has no time zone"),
    "a time that is text": (lambda c: Message("t", b"", at="2030-01-01"), "at must be a datetime"),
    "a time that is a float": (lambda c: Message("t", b"", at=1.8e12), "at must be a datetime"),
    "a time that is a bool": (lambda c: Message("t", b"", at=True), "at must be a datetime"),
    "a negative time": (lambda c: Message("t", b"", at=-1), "at must be 1"),
    "a delay that is a number": (lambda c: Message("t", b"", after=30), r"after must be a timedelta.*seconds=30"),
    "a negative delay": (lambda c: Message("t", b"", after=-MINUTE), "after must be at least 0"),
    "both a time and a delay": (lambda c: Message("t", b"", at=UTC_2030, after=MINUTE), "at.*after"),
    "a payload that is text": (lambda c: Message("t", "text"), "payload must be bytes"),
    "a topic that is bytes": (lambda c: Message(b"t", b""), "topic must be a str"),
    "an id that is a number": (lambda c: Message("t", b"", id=17), "id must be a str"),
    "a group that is a number": (lambda c: Message("t", b"", group=17), "group must be a str"),
    "headers that are text": (lambda c: Message("t", b"", headers="kind=gift"), "headers must be a mapping"),
    "a header that is a number": (lambda c: Message("t", b"", headers={"n": 1}), "headers must be a mapping"),
    "attempts that are text": (lambda c: Message("t", b"", max_attempts="3"), "max_attempts must be an int"),
    "a back-off that is a delay": (lambda c: Message("t", b"", backoff=MINUTE), "backoff must be a Backoff"),
    "a back-off without a delay": (lambda c: Backoff.fixed(timedelta(0)), "back-off must be at least 1 ms"),
    "a put of something else": (lambda c: c.put("t"), "message must be a list of Message"),
    "a put of one as many": (lambda c: c.put_many(Message("t", b"")), "messages must be a list"),
    "topics that are text": (lambda c: c.reserve("orders"), "topics must be a list of str, not 'orders'"),
    "no topics": (lambda c: c.reserve([]), "at least one topic"),
    "no messages": (lambda c: c.reserve(["t"], 0), "at least 1 message"),
    "a wait in seconds": (lambda c: c.reserve(["t"], wait=5), "wait must be a timedelta"),
    "a negative wait": (lambda c: c.reserve(["t"], wait=-MINUTE), "wait must be at least 0"),
    "no lease": (lambda c: c.reserve(["t"], lease=timedelta(0)), "lease must be at least 1 ms"),
    "one receipt as many": (lambda c: c.ack(Receipt(0, b"")), "receipts must be a list of Receipt"),
    "deliveries for receipts": (lambda c: c.ack(["x"]), "receipts must be a list of Receipt"),
    "a negative release": (lambda c: c.release([Receipt(0, b"1:a0000")], -MINUTE), "delay must be at least 0"),
    "a reschedule to nothing": (lambda c: c.reschedule("t", "a"), "give at"),
    "a blind difference": (lambda c: c.reschedule("t", "a", by=MINUTE), "expected"),
    "a difference that is a number": (lambda c: c.reschedule("t", "a", by=5, expected=UTC_2030), "by must be a timed"),
    "a shift by nothing": (lambda c: c.group("g").shift(timedelta(0)), "by must not be zero"),
    "ids that are text": (lambda c: c.topic("t").replay("order-1"), "ids must be a list of str"),
    "an unknown state": (lambda c: list(c.topic("t").list("over")), "state must be"),
    "a purge of what is leased": (lambda c: c.topic("t").purge("leased"), "state must be"),
    "an invalid namespace": (lambda c: Client(c.redis, "a b"), "namespace"),
    "a namespace that is a number": (lambda c: Client(c.redis, 5), "namespace must be a str"),
    "a connection that blocks, for asyncio": (lambda c: AsyncClient(c.redis), "redis blocks"),
    "an asynchronous connection, for threads": (lambda c: Client(redis.asyncio.Redis()), "redis is asynchronous"),
    "an asynchronous worker of a client that blocks": (lambda c: AsyncWorker(c, {}), "client must be of AsyncClient"),
    "no client": (lambda c: Consumer(c.redis, ["t"]), "client must be of Client"),
    "a lease of a policy in s": (lambda c: Policy(lease=30).changes([], 1), "lease must be a timedelta"),
    "a rate that is text": (lambda c: Policy(rate="5").changes([], 1), "rate cannot be '5'"),
    "a reset of no setting": (lambda c: Policy().changes(["leases"], 1), "reset must be a list of settings"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_argument_that_cannot_be_meant_is_refused_by_name(client, case):
    call, told = REFUSED[case]
    with pytest.raises(InvalidArgument, match=told):
        call(client)


def test_a_past_that_is_meant_is_taken():
    assert Message("t", b"", at=1000, past_ok=True).due() == 1000
    assert Message("t", b"", at=datetime(1999, 1, 1, tzinfo=timezone.utc)).due() == 915_148_800_000


def test_times_of_any_zone_and_delays_of_any_unit_are_taken():
    tokyo = timezone(timedelta(hours=9))
    assert Message("t", b"", at=datetime(2030, 1, 1, 9, tzinfo=tokyo)).due() == 1_893_456_000_000
    assert Message("t", b"", at=1_893_456_000_000).due() == 1_893_456_000_000
    assert Message("t", b"", after=timedelta(minutes=30)).due() == "+1800000"
    assert Message("t", b"", after=timedelta(microseconds=1)).due() == "+1"
