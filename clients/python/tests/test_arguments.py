"""Arguments that are refused by name before anything is sent."""

import re
from datetime import datetime, timedelta, timezone

import pytest
import redis
import redis.asyncio
from conftest import vectors

from delayq import (
    AsyncClient,
    AsyncWorker,
    Backoff,
    Client,
    Consumer,
    InvalidArgument,
    Message,
    Node,
    Policy,
    Receipt,
    Worker,
    connect,
    connect_async,
)
from delayq.reasons import reason_text

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
    "no messages": (lambda c: c.reserve(["t"], 0), "max_messages must be 1 to"),
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
    "a rate that is text": (lambda c: Policy(rate="5").changes([], 1), "rate must be .*'5'"),
    "a reset of no setting": (lambda c: Policy().changes(["leases"], 1), "reset must be a list of settings"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_argument_that_cannot_be_meant_is_refused_by_name(client, case):
    call, told = REFUSED[case]
    with pytest.raises(InvalidArgument, match=told):
        call(client)


def test_a_time_is_taken_from_2001_to_the_end_of_9999():
    for ms in (978_307_200_000, 253_402_300_799_999):
        assert Message("t", b"", at=ms).due() == ms
    for ms in (978_307_199_999, 253_402_300_800_000):
        with pytest.raises(InvalidArgument, match="at is"):
            Message("t", b"", at=ms)
        assert Message("t", b"", at=ms, past_ok=True).due() == ms


def test_a_past_that_is_meant_is_taken():
    assert Message("t", b"", at=1000, past_ok=True).due() == 1000
    assert Message("t", b"", at=datetime(1999, 1, 1, tzinfo=timezone.utc)).due() == 915_148_800_000


def test_times_of_any_zone_and_delays_of_any_unit_are_taken():
    tokyo = timezone(timedelta(hours=9))
    assert Message("t", b"", at=datetime(2030, 1, 1, 9, tzinfo=tokyo)).due() == 1_893_456_000_000
    assert Message("t", b"", at=1_893_456_000_000).due() == 1_893_456_000_000
    assert Message("t", b"", after=timedelta(minutes=30)).due() == "+1800000"
    assert Message("t", b"", after=timedelta(microseconds=1)).due() == "+1"


PROTOCOL = vectors("protocol.json")
HALF, LARGE = "\ud800", "x" * 5_000_000
#: Values that no caller means, by the names of protocol.json.
ODD_BY_NAME = {
    "null": None, "NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf"), "-1": -1, "0.5": 0.5, "2^31": 2**31,
    "2^53": 2**53, "empty text": "", "a space": " ", "'false'": "false", "{}": {}, "[]": [], "a lone surrogate": HALF,
    "5 MB": LARGE, "true": True,
}
ODD = [value for value in ODD_BY_NAME.values() if value is not None]
ODD += [timedelta.max, timedelta.min, datetime(2030, 1, 1), b"", object(), [None]]


def message(**options):
    return Message(**{"topic": "t", "payload": b""} | options)


#: Each option of protocol.json: a function that passes a value, the name in the error, and True if None is accepted.
SHARED = {
    "put topic": (lambda c, v: message(topic=v), "topic", False),
    "put payload": (lambda c, v: message(payload=v), "payload", False),
    "put id": (lambda c, v: message(id=v), "id", True),
    "put at": (lambda c, v: message(at=v), "at", True),
    "put after": (lambda c, v: message(after=v), "after", True),
    "put group": (lambda c, v: message(group=v), "group", True),
    "put header name": (lambda c, v: message(headers=[(v, "x")]), "header", False),
    "put header value": (lambda c, v: message(headers={"kind": v}), "header", False),
    "put expires": (lambda c, v: message(expires=v), "expires", True),
    "put expire_after": (lambda c, v: message(expire_after=v), "expire_after", True),
    "put max_attempts": (lambda c, v: message(max_attempts=v), "max_attempts", False),
    "put backoff": (lambda c, v: message(backoff=v), "backoff", True),
    "put replace": (lambda c, v: message(replace=v), "replace", False),
    "put debounce": (lambda c, v: message(debounce=v), "debounce", True),
    "put throttle": (lambda c, v: message(id="a", throttle=v), "throttle", True),
    "put swallow": (lambda c, v: message(id="a", swallow=v), "swallow", True),
    "put only": (lambda c, v: message(only=v), "only", True),
    "put keep_content": (lambda c, v: message(keep_content=v), "keep_content", False),
    "put expected": (lambda c, v: message(expected=v), "expected", True),
    "put expected_content": (lambda c, v: message(expected_content=v), "expected_content", True),
    "put first_tried": (lambda c, v: message(first_tried=v), "first_tried", True),
    **{
        f"{verb} {option}": (lambda c, v, verb=verb, option=option: named(c, verb, option, v), option, option == "group")
        for verb in ("cancel", "reschedule", "get") for option in ("topic", "id", "group")
    },
    "reschedule at": (lambda c, v: c.reschedule("t", "a", at=v), "at", False),
    "reschedule after": (lambda c, v: c.reschedule("t", "a", after=v), "after", False),
    "reschedule by": (lambda c, v: c.reschedule("t", "a", by=v, expected=UTC_2030), "by", False),
    "reschedule expected": (lambda c, v: c.reschedule("t", "a", at=UTC_2030, expected=v), "expected", True),
    "reserve topic": (lambda c, v: c.reserve([v]), "topic", False),
    "reserve max": (lambda c, v: c.reserve(["t"], v), "max_messages", False),
    "reserve lease": (lambda c, v: c.reserve(["t"], lease=v), "lease", True),
    "reserve wait": (lambda c, v: c.reserve(["t"], wait=v), "wait", True),
    "extend receipt": (lambda c, v: c.extend([v]), "receipts", False),
    "extend lease": (lambda c, v: c.extend([RECEIPT], v), "lease", True),
    "ack receipt": (lambda c, v: c.ack([v]), "receipts", False),
    "release receipt": (lambda c, v: c.release([v]), "receipts", False),
    "release delay": (lambda c, v: c.release([RECEIPT], v), "delay", True),
    "release keep_attempt": (lambda c, v: c.release([RECEIPT], keep_attempt=v), "keep_attempt", False),
    "release reason": (lambda c, v: c.release([RECEIPT], reason=v), "reason", False),
    "bury receipt": (lambda c, v: c.bury([v], "why"), "receipts", False),
    "bury reason": (lambda c, v: c.bury([RECEIPT], v), "reason", False),
    "replay topic": (lambda c, v: c.topic(v), "topic", False),
    "replay id": (lambda c, v: c.topic("t").replay([v]), "id", False),
    "replay group": (lambda c, v: c.topic("t").replay(["a"], v), "group", True),
    "replay delay": (lambda c, v: c.topic("t").replay(["a"], delay=v), "delay", False),
    "list topic": (lambda c, v: c.topic(v), "topic", False),
    "list state": (lambda c, v: list(c.topic("t").list(v)), "state", False),
    "list from": (lambda c, v: list(c.topic("t").list(since=v)), "since", True),
    "list to": (lambda c, v: list(c.topic("t").list(until=v)), "until", True),
    "promote topic": (lambda c, v: c.topic(v), "topic", False),
    "promote from": (lambda c, v: c.topic("t").promote(since=v), "since", True),
    "promote to": (lambda c, v: c.group("g").promote(until=v), "until", True),
    "purge topic": (lambda c, v: c.topic(v), "topic", False),
    "purge state": (lambda c, v: c.topic("t").purge(v), "state", False),
    "purge from": (lambda c, v: c.topic("t").purge("dead", since=v), "since", True),
    "purge to": (lambda c, v: c.topic("t").purge("dead", until=v), "until", True),
    "group group": (lambda c, v: c.group(v), "group", False),
    "group topic": (lambda c, v: c.group("g", topic=v), "topic", True),
    "shift by": (lambda c, v: c.group("g").shift(v), "by", False),
    "shift token": (lambda c, v: c.group("g").shift(MINUTE, v), "token", True),
    "client namespace": (lambda c, v: Client(c.redis, v), "namespace", False),
    "client max_payload_bytes": (lambda c, v: Client(c.redis, max_payload_bytes=v), "max_payload_bytes", False),
    "client confirm_timeout": (lambda c, v: Client(c.redis, confirm_timeout=v), "confirm_timeout", True),
    "worker topic": (lambda c, v: Worker(c, {v: print} if v.__hash__ else {}), "topic|handlers", False),
    "worker concurrency": (lambda c, v: Worker(c, {"t": print}, concurrency=v), "concurrency", False),
    "worker lease": (lambda c, v: Worker(c, {"t": print}, lease=v), "lease", True),
    "worker pump": (lambda c, v: Worker(c, {"t": print}, pump=v), "pump", False),
    **{
        f"configure {one['name']}": (lambda c, v, setting=one["name"]: Policy(**{setting: v}), one["name"], True)
        for one in PROTOCOL["settings"]
    },
}
#: The entries of protocol.json by the same names.
ENTRIES = {f"{one['call']} {one['option']}": one for one in PROTOCOL["options"]}
ENTRIES |= {f"configure {one['name']}": one for one in PROTOCOL["settings"]}
NAMES = {one["what"]: one for one in PROTOCOL["names"]}


def is_valid(entry, value):
    """Reports whether a value is valid for an entry of protocol.json."""
    kind, is_number = entry["kind"], isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind in NAMES:
        form = NAMES[kind]
        return isinstance(value, str) and value != HALF and len(value) <= form["max_bytes"] and bool(
            re.fullmatch(f"{form['characters']}+", value)
        )
    if kind == "text":
        return isinstance(value, str) and value != HALF and len(value) <= PROTOCOL["limits"]["header_bytes"]
    if kind == "count":
        return is_number and isinstance(value, int) and entry["least"] <= value <= entry["most"]
    if kind == "rate":
        return is_number and entry["least"] <= value <= entry["most"]
    if kind == "word":
        return isinstance(value, str) and any(re.fullmatch(word, value) for word in entry["words"])
    # Of times and spans, which are no numbers here, every odd value is out of range.
    return isinstance(value, {"bytes": bytes, "flag": bool, "reason": str}.get(kind, ()))


def test_every_option_of_the_protocol_is_tried_with_every_odd_value():
    assert set(SHARED) == set(ENTRIES) and set(PROTOCOL["odd"]) == set(ODD_BY_NAME)


#: Each option of this client alone, too: and the odd values that are valid.
OPTIONS = {
    "Message past_ok": (lambda c, v: message(past_ok=v), "past_ok", False, [True]),
    "Message headers": (lambda c, v: message(headers=v), "headers", False, [{}, []]),
    "Backoff kind": (lambda c, v: Backoff(v, (1,)), "kind", False, []),
    "Backoff delays_ms": (lambda c, v: Backoff("fixed", v), "delay", False, []),
    "Backoff delay_ms": (lambda c, v: Backoff("fixed", (v,)), "delay", False, [2**31]),
    "Backoff.fixed": (lambda c, v: Backoff.fixed(v), "delay", False, []),
    "Backoff.exponential": (lambda c, v: Backoff.exponential(MINUTE, v), "delay", False, []),
    "Backoff.steps": (lambda c, v: Backoff.steps(MINUTE, v), "delay", False, []),
    "Client redis": (lambda c, v: Client(v), "redis|node", False, []),
    "Node name": (lambda c, v: Client([Node(v, c.redis, "0")]), "node", False, ["false"]),
    "Node redis": (lambda c, v: Client([Node("a", v, "0")]), "redis", False, []),
    "Node shards": (lambda c, v: Client([Node("a", c.redis, v)]), "shards|node", False, []),
    "connect url": (lambda c, v: connect(v), "url", False, []),
    "put message": (lambda c, v: c.put(v), "message", False, []),
    "put_many messages": (lambda c, v: c.put_many(v), "messages", False, [[]]),
    "reschedule past_ok": (lambda c, v: c.reschedule("t", "a", after=MINUTE, past_ok=v), "past_ok", False, [True]),
    "reserve topics": (lambda c, v: c.reserve(v), "topics", False, []),
    "reserve promote_until": (lambda c, v: c.reserve(["t"], promote_until=v), "promote_until", True, []),
    "extend receipts": (lambda c, v: c.extend(v), "receipts", False, [[]]),
    "ack receipts": (lambda c, v: c.ack(v), "receipts", False, [[]]),
    "ack receipt's shard": (lambda c, v: c.ack([Receipt(v, RECEIPT.raw)]), "receipt", False, []),
    "ack receipt's bytes": (lambda c, v: c.ack([Receipt(0, v)]), "receipt", False, []),
    "set_policy policy": (lambda c, v: c.topic("t").set_policy(v), "policy", False, []),
    "set_policy reset": (lambda c, v: c.topic("t").set_policy(Policy(), v), "reset", False, [[]]),
    "replay ids": (lambda c, v: c.topic("t").replay(v), "ids", False, [[]]),
    "replay_all reason": (lambda c, v: c.topic("t").replay_all(reason=v), "reason", False, ["", " ", "false", LARGE]),
    "replay_all max_messages": (lambda c, v: c.topic("t").replay_all(max_messages=v), "max_messages", True, [2**31]),
    "replay_all delay": (lambda c, v: c.topic("t").replay_all(delay=v), "delay", False, []),
    "replay_all since": (lambda c, v: c.topic("t").replay_all(since=v), "since", True, []),
    "replay_all until": (lambda c, v: c.topic("t").replay_all(until=v), "until", True, []),
    "replay_all past_ok": (lambda c, v: c.topic("t").replay_all(past_ok=v), "past_ok", False, [True]),
    "promote past_ok": (lambda c, v: c.topic("t").promote(past_ok=v), "past_ok", False, [True]),
    "purge past_ok": (lambda c, v: c.topic("t").purge("dead", past_ok=v), "past_ok", False, [True]),
    "release receipts": (lambda c, v: c.release(v), "receipts", False, [[]]),
    "bury receipts": (lambda c, v: c.bury(v, "why"), "receipts", False, [[]]),
    "connect_async url": (lambda c, v: connect_async(v), "url", False, []),
    "list past_ok": (lambda c, v: list(c.topic("t").list(past_ok=v)), "past_ok", False, [True]),
    "Consumer topics": (lambda c, v: Consumer(c, v), "topics", False, []),
    "Consumer concurrency": (lambda c, v: Consumer(c, ["t"], concurrency=v), "concurrency", False, []),
    "Consumer lease": (lambda c, v: Consumer(c, ["t"], lease=v), "lease", True, []),
    "Worker client": (lambda c, v: Worker(v, {"t": print}), "client", False, []),
    "Worker handlers": (lambda c, v: Worker(c, v), "handlers", False, []),
    "Worker handler": (lambda c, v: Worker(c, {"t": v}), "handlers", False, []),
    "Worker grace": (lambda c, v: Worker(c, {"t": print}, grace=v), "grace", False, []),
}
RECEIPT = Receipt(0, b"1:a0000")


def named(client, verb, option, value):
    given = {"topic": "t", "id": "a", "group": None} | {option: value}
    more = {"after": MINUTE} if verb == "reschedule" else {}
    return getattr(client, verb)(given["topic"], given["id"], given["group"], **more)


def is_taken(value, taken):
    return any(type(value) is type(one) and value == one for one in taken)


def try_each(client, call, told, is_accepted):
    for value in [None, *ODD]:
        if is_accepted(value):
            try:
                call(client, value)
            except redis.RedisError:
                pass  # it was sent: nothing listens there
        else:
            with pytest.raises(InvalidArgument, match=told) as refused:
                call(client, value)
            assert len(str(refused.value)) < 1000


@pytest.mark.parametrize("option", SHARED)
def test_an_odd_value_of_an_option_of_the_protocol_is_taken_only_if_the_protocol_has_it(client, option):
    call, told, takes_none = SHARED[option]
    try_each(client, call, told, lambda value: takes_none if value is None else is_valid(ENTRIES[option], value))


@pytest.mark.parametrize("option", OPTIONS)
def test_an_odd_value_of_any_option_is_refused_by_name_and_never_ignored_clamped_or_coerced(client, option):
    call, told, takes_none, taken = OPTIONS[option]
    try_each(client, call, told, lambda value: takes_none if value is None else is_taken(value, taken))


@pytest.mark.parametrize("call", [Message, Client, Worker, Consumer, Policy, lambda **odd: Client(redis.Redis()).put(**odd)])
def test_an_option_that_there_is_not_is_refused_by_name(call):
    with pytest.raises(TypeError, match="max_atempts"):
        call(max_atempts=3)


def test_a_reason_that_cannot_be_sent_is_written_out_and_cut_where_a_character_ends():
    assert reason_text("no \ud800 user") == "no \\ud800 user"
    assert reason_text("é" * 600) == "é" * 500
    assert reason_text("x" + "é" * 600) == "x" + "é" * 499


def test_seconds_and_microseconds_are_refused_wherever_milliseconds_are_meant(client):
    for when in (1_800_000_000, 1_800_000_000_000_000):
        for call in (
            lambda: Message("t", b"", at=when), lambda: Message("t", b"", expires=when),
            lambda: Message("t", b"", first_tried=when), lambda: client.reschedule("t", "a", at=when),
            lambda: client.reschedule("t", "a", at=UTC_2030, expected=when), lambda: client.topic("t").purge("dead", since=when),
            lambda: client.topic("t").replay_all(until=when), lambda: list(client.topic("t").list(since=when)),
        ):
            with pytest.raises(InvalidArgument, match="if (seconds|µs) were meant"):
                call()


URLS = {
    "redis://h": {"host": "h", "port": 6379, "db": 0, "username": None, "password": None},
    "redis://user:p%40s%2Fs@h:7/2": {"host": "h", "port": 7, "db": 2, "username": "user", "password": "p@s/s"},
    "redis://user:p@ss@h?db=1": {"host": "h", "db": 1, "username": "user", "password": "p@ss"},
    "redis://h?db=1": {"host": "h", "db": 1},
    "rediss://:pw@[::1]:7": {"host": "::1", "port": 7, "username": None, "password": "pw"},
    "unix:///run/r@1.sock": {"path": "/run/r@1.sock", "db": 0},
    "unix:///run/r.sock?db=3&user=u&pass=p%20w": {"path": "/run/r.sock", "db": 3, "username": "u", "password": "p w"},
    "redis+unix://u:pw@/run/r.sock": {"path": "/run/r.sock", "username": "u", "password": "pw"},
}
WRONG_URLS = {
    "redis://h?protocol=3": "no parameter protocol", "redis://u:hunter2@h?socket_timeout=2": "no parameter socket_timeout",
    "redis://u:hunter2@h?db=1&db=2": "db twice", "redis://h/1?db=2": "database 1 and the database 2", "redis://h?db=x": "db is not",
    "redis://h?db": "db is not", "redis://h/abc": "not the number of a database", "redis://u:hun/ter2@h": "user or password",
    "redis://u:hun?ter2@h": "@ behind a", "redis://u:hun#ter2@h": "user or password", "redis://u:hunter2%ff@h": "user or password",
    "redis://u:hunter2%zz@h": "user or password", "redis://u:hunter2@": "names no host", "redis://h:x": "is not a Redis",
    "redis://h1,h2": "redis\\+cluster", "redis://h#1": "is not a Redis", "http://h": "redis://", " redis://h": "redis://", "h:1": "redis://",
    "unix://run/r.sock": "path", "unix:///r.sock?pass=hunter2&timeout=1": "no parameter timeout",
    "unix://u:hunter2@/r.sock?pass=hunter2": "password twice", "redis+cluster://h?db=1": "parameter", "redis+sentinel://h/m?x=1": "parameter",
    "redis+sentinel://h/m?db=1&db=2": "db twice",
}


@pytest.mark.parametrize("by", [connect, connect_async])
@pytest.mark.parametrize("url", URLS)
def test_a_url_is_taken_as_a_whole(url, by):
    settings = by(url).connection_pool.connection_kwargs
    assert {key: settings.get(key) for key in URLS[url]} == URLS[url]
    assert ("ssl" in by(url).connection_pool.connection_class.__name__.lower()) == url.startswith("rediss")


@pytest.mark.parametrize("by", [connect, connect_async])
@pytest.mark.parametrize("url", WRONG_URLS)
def test_a_url_of_which_something_would_be_ignored_is_refused_and_no_secret_is_repeated(url, by):
    with pytest.raises(InvalidArgument, match=WRONG_URLS[url]) as refused:
        by(url)
    assert "ter2" not in str(refused.value)
