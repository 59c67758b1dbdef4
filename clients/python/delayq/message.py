"""A message of a producer, and the encoding of a put."""

import hashlib
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, cast

from .checks import flag, one_of, shown, text, whole
from .errors import InvalidArgument
from .names import generated, name, new_id
from .protocol import (
    FLAG_BACKOFF,
    FLAG_EXPIRES,
    FLAG_GROUP,
    FLAG_HASH,
    FLAG_HEADERS,
    FLAG_LIFETIME,
    MAX_ATTEMPTS,
    MAX_DELAY_MS,
    MAX_DELAYS,
    MAX_HEADER_BYTES,
    MAX_PAYLOAD_BYTES,
)
from .times import When, epoch_ms, span_ms

#: The options that are spans, and the words of the script for them.
_SPANS = {"debounce": "within", "throttle": "throttle", "swallow": "swallow"}
#: The options of which a put has one at most: each rules the due time of a pending message.
_RULES = (*_SPANS, "only")
_DELAYS = {"fixed": [1], "exponential": [2], "list": range(1, MAX_DELAYS + 1)}


@dataclass(frozen=True)
class Backoff:
    """The delay before the next attempt, 1 ms to 49 days."""

    kind: Literal["fixed", "exponential", "list"]
    #: One delay; first and longest; or one per attempt.
    delays_ms: tuple[int, ...]

    @classmethod
    def fixed(cls, delay: timedelta) -> "Backoff":
        """Repeats one delay."""
        return cls("fixed", _delays(delay))

    @classmethod
    def exponential(cls, first: timedelta, longest: timedelta) -> "Backoff":
        """Doubles the delay each time; the actual delay is random, between half and the whole."""
        return cls("exponential", _delays(first, longest))

    @classmethod
    def steps(cls, *delays: timedelta) -> "Backoff":
        """One delay per attempt, 1 to 32; the last delay repeats."""
        return cls("list", _delays(*delays))

    def __post_init__(self) -> None:
        one_of("the kind of the back-off", self.kind, _DELAYS)
        if not isinstance(self.delays_ms, (list, tuple)):
            raise InvalidArgument(f"delays_ms must be a tuple of ms, not {shown(self.delays_ms)}")
        delays = tuple(whole("a delay of the back-off", delay, 1, MAX_DELAY_MS) for delay in self.delays_ms)
        if len(delays) not in _DELAYS[self.kind]:
            raise InvalidArgument(f"a back-off of kind {self.kind} cannot have {len(delays)} delays")
        if self.kind == "exponential" and delays[0] > delays[1]:
            raise InvalidArgument(f"the longest delay of the back-off, {delays[1]} ms, is less than the first, {delays[0]} ms")
        object.__setattr__(self, "delays_ms", delays)

    def encode(self) -> bytes:
        count, delays = len(self.delays_ms), self.delays_ms
        return struct.pack(f">B{count}I", list(_DELAYS).index(self.kind) + 1, *delays)

    @classmethod
    def decode(cls, stored: bytes) -> "Backoff | None":
        """Decodes a back-off. An invalid back-off counts as missing, as in scripts."""
        kinds: list[Literal["fixed", "exponential", "list"]] = ["fixed", "exponential", "list"]
        if stored[:1] not in (b"\1", b"\2", b"\3") or len(stored) % 4 != 1:
            return None
        try:
            return cls(kinds[stored[0] - 1], struct.unpack(f">{len(stored) // 4}I", stored[1:]))
        except InvalidArgument:
            return None


@dataclass(frozen=True)
class Message:
    """A message for delivery at a due time on the Redis clock: `at`, or `after` a delay from the put.

    Times are aware datetimes, or ints of milliseconds since the epoch. Delays are timedeltas.
    """

    topic: str
    payload: bytes
    #: The producer's own id; generated if missing. Only a put with an own id may be repeated.
    id: str | None = None
    at: When | None = None
    after: timedelta | None = None
    group: str | None = None
    #: A mapping, or pairs of name and value.
    headers: Mapping[str, str] | Sequence[tuple[str, str]] = ()
    expires: When | None = None
    #: Expires this long after the due time, in place of `expires`; a reschedule moves the expiry too.
    expire_after: timedelta | None = None
    #: 0 selects the topic's limit.
    max_attempts: int = 0
    backoff: Backoff | None = None
    #: Replaces a message with the same id, unless the message is leased.
    replace: bool = False
    #: Replaces; a pending message is due again at the new time, but at most this long after its first put.
    debounce: timedelta | None = None
    #: Replaces; a pending message keeps its due time, and behind a delivery or a leased message the put is due at least this long
    #: after the due time of that. Needs an id of your own.
    throttle: timedelta | None = None
    #: As `throttle`, but a put that meets a pending or leased message, or a delivery in that time, is dropped: "exists".
    swallow: timedelta | None = None
    #: Replaces; a pending message keeps its due time unless the new time is later, or sooner. With "content" it always keeps the
    #: due time: the put edits.
    only: Literal["later", "sooner", "content"] | None = None
    #: Replaces; a pending message keeps payload, headers and options.
    keep_content: bool = False
    #: Replaces only a pending message that is due at this time, and whose `content_hash` is this.
    expected: When | None = None
    expected_content: str | None = None
    #: Local time of the first attempt, for a repeat of a put with an unknown fate.
    first_tried: When | None = None
    #: Accepts ints before 2001 or after 9999.
    past_ok: bool = False

    def __post_init__(self) -> None:
        name("topic", self.topic)
        if self.id is not None:
            new_id(self.id)
        if self.group is not None:
            name("group", self.group)
        if not isinstance(self.payload, (bytes, bytearray, memoryview)):
            raise InvalidArgument(f"payload must be bytes, not {type(self.payload).__name__}: encode it")
        if self.at is not None and self.after is not None:
            raise InvalidArgument("give at, a time, or after, a delay: not both")
        whole("max_attempts", self.max_attempts, 0, MAX_ATTEMPTS)
        if not isinstance(self.backoff, Backoff | None):
            raise InvalidArgument(f"backoff must be a Backoff, not {shown(self.backoff)}")
        flag("past_ok", self.past_ok)
        self.due()
        self.expires_ms()
        self.lifetime_ms()
        self.options(0)
        object.__setattr__(self, "headers", _pairs(self.headers))
        object.__setattr__(self, "payload", bytes(self.payload))
        if len(self.payload) > MAX_PAYLOAD_BYTES:
            raise InvalidArgument(f"payload has {len(self.payload)} bytes; at most {MAX_PAYLOAD_BYTES} are allowed")
        self._header_block()

    @property
    def _headers(self) -> tuple[tuple[str, str], ...]:
        return cast(tuple[tuple[str, str], ...], self.headers)

    def due(self) -> int | str:
        """Encodes the due time."""
        if self.at is not None:
            return epoch_ms("at", self.at, self.past_ok)
        return f"+{0 if self.after is None else span_ms('after', self.after)}"

    def expires_ms(self) -> int | None:
        return None if self.expires is None else epoch_ms("expires", self.expires, self.past_ok)

    def lifetime_ms(self) -> int | None:
        if self.expire_after is not None and self.expires is not None:
            raise InvalidArgument("give expires, a time, or expire_after, a delay after the due time: not both")
        return None if self.expire_after is None else span_ms("expire_after", self.expire_after, 1)

    def options(self, ahead_ms: int) -> str:
        """Encodes replacement and first attempt; `ahead_ms` is the lead of the Redis clock."""
        words = self._again()
        if flag("replace", self.replace) or words:
            words.insert(0, "replace")
        if self.first_tried is not None:
            words.append(f"tried={epoch_ms('first_tried', self.first_tried, self.past_ok) + ahead_ms}")
        return " ".join(words)

    def _again(self) -> list[str]:
        given = [option for option in _RULES if getattr(self, option) is not None]
        if len(given) > 1:
            raise InvalidArgument(f"give {' or '.join(given)}: a pending message has one due time")
        words = [self._rule(option) for option in given]
        if flag("keep_content", self.keep_content):
            words.append("keep")
        if self.expected is not None:
            words.append(f"expected={epoch_ms('expected', self.expected, self.past_ok)}")
        if self.expected_content is not None:
            words.append(f"hash={_hash('expected_content', self.expected_content)}")
        return words

    def _rule(self, option: str) -> str:
        """Encodes the option that rules the due time of a pending message."""
        value = getattr(self, option)
        if option == "only":
            return one_of("only", value, ("later", "sooner", "content"))
        word = f"{_SPANS[option]}={span_ms(option, value, 1)}"
        if option != "debounce" and (self.id is None or generated(new_id(self.id))):
            raise InvalidArgument(f"{option} needs an id of your own: a generated id meets no earlier message")
        return word

    def content_hash(self) -> bytes:
        """Distinguishes a repeat of a put from another message with the same id. The due time is left out."""
        texts = [self.topic, self.group or "", *(text for pair in self._headers for text in pair)]
        fields = [*(one.encode() for one in texts), self.payload]
        return hashlib.sha256(b"".join(_sized(4, field) for field in fields)).digest()[:8]

    def _header_block(self) -> bytes:
        encoded = [(key.encode(), value.encode()) for key, value in self._headers]
        size = sum(len(key) + len(value) + 3 for key, value in encoded)
        if size > MAX_HEADER_BYTES:
            raise InvalidArgument(f"headers have {size} bytes; at most {MAX_HEADER_BYTES} are allowed")
        return b"".join(_sized(1, key) + _sized(2, value) for key, value in encoded)

    def envelope(self, own_id: bool, max_payload_bytes: int = MAX_PAYLOAD_BYTES) -> bytes:
        """Encodes a put, as specified in docs/protocol.md; scripts fill in state, gen, due, at and counts."""
        block = self._header_block()
        if len(self.payload) > max_payload_bytes:
            raise InvalidArgument(f"payload has {len(self.payload)} bytes; at most {max_payload_bytes} are allowed")
        expires_ms, lifetime_ms = self.expires_ms(), self.lifetime_ms()
        fields = {
            FLAG_HASH: self.content_hash() if own_id else b"",
            FLAG_EXPIRES: b"" if expires_ms is None else struct.pack(">Q", expires_ms),
            FLAG_BACKOFF: b"" if self.backoff is None else _sized(1, self.backoff.encode()),
            FLAG_GROUP: b"" if self.group is None else _sized(1, self.group.encode()),
            FLAG_LIFETIME: b"" if lifetime_ms is None else struct.pack(">Q", lifetime_ms),
            FLAG_HEADERS: _sized(2, block) if block else b"",
        }
        flags = sum(flag for flag, field in fields.items() if field)
        return struct.pack(">BBH26xH", 1, 1, flags, self.max_attempts) + b"".join(fields.values()) + self.payload


def _pairs(headers: object) -> tuple[tuple[str, str], ...]:
    pairs = tuple(headers.items()) if isinstance(headers, Mapping) else headers
    if not isinstance(pairs, (list, tuple)) or not all(_is_pair(pair) for pair in pairs):
        raise InvalidArgument(f"headers must be a mapping of str to str, or pairs of them, not {shown(headers)}")
    return tuple((name("header name", key), text(f"header {key}", value)) for key, value in pairs)


def _is_pair(pair: object) -> bool:
    return isinstance(pair, (list, tuple)) and len(pair) == 2 and all(isinstance(text, str) for text in pair)


def _hash(what: str, value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch("[0-9a-fA-F]{16}", value):
        raise InvalidArgument(f"{what} must be a content hash of 16 hex digits, not {shown(value)}")
    return value


def _delays(*delays: timedelta) -> tuple[int, ...]:
    return tuple(span_ms("a delay of the back-off", delay, 1, MAX_DELAY_MS) for delay in delays)


def _sized(width: int, field: bytes) -> bytes:
    """Prefixes a field with the length, which has this many bytes."""
    return len(field).to_bytes(width, "big") + field
