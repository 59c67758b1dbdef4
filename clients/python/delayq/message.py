"""A message as its producer hands it over, and what a put sends of it."""

import hashlib
import struct
from dataclasses import dataclass
from typing import Literal

from .names import InvalidMessage, name

MAX_PAYLOAD_BYTES = 1024 * 1024
MAX_HEADER_BYTES = 16 * 1024
_DELAYS = {"fixed": [1], "exponential": [2], "list": range(1, 33)}


@dataclass(frozen=True)
class Backoff:
    """How long a message rests before its next try: one delay, the first and the longest, or one a try."""

    kind: Literal["fixed", "exponential", "list"]
    delays_ms: tuple[int, ...]

    def encode(self) -> bytes:
        count, delays = len(self.delays_ms), self.delays_ms
        falls = self.kind == "exponential" and delays[:1] > delays[1:]
        if count not in _DELAYS[self.kind] or min(delays) < 1 or falls:
            raise InvalidMessage(f"{self} is no back-off: delays are 1 ms to 49 days")
        return _pack(f"B{count}I", list(_DELAYS).index(self.kind) + 1, *delays)


@dataclass(frozen=True)
class Message:
    """A message to be delivered at its due time: at `at_ms`, or `after_ms` from the put, on Redis's clock."""

    topic: str
    payload: bytes
    #: The producer's own. Without one it is generated; a put may be repeated only under an id that was given.
    id: str | None = None
    at_ms: int | None = None
    after_ms: int = 0
    group: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    expires_ms: int | None = None
    #: 0: as its topic says.
    max_attempts: int = 0
    backoff: Backoff | None = None
    #: Takes the place of a message with the same id, unless that one is leased.
    replace: bool = False
    #: A repeat of a put whose fate is unknown: when it was first tried, in ms, on this host's clock.
    first_tried_ms: int | None = None

    def options(self, ahead_ms: int) -> str:
        """What a put says of a replace and of a repeat; Redis's clock is ahead of this host's by so much."""
        replace, tried_ms = "replace" * self.replace, (self.first_tried_ms or 0) + ahead_ms
        return replace if self.first_tried_ms is None else f"{replace} tried={tried_ms}"

    def content_hash(self) -> bytes:
        """What tells the repeat of a put from another message with the same id; the due time is left out."""
        texts = [self.topic, self.group or "", *(text for pair in self.headers for text in pair)]
        fields = [*(text.encode() for text in texts), self.payload]
        return hashlib.sha256(b"".join(_sized("I", field) for field in fields)).digest()[:8]

    def envelope(self, own_id: bool, most_payload_bytes: int = MAX_PAYLOAD_BYTES) -> bytes:
        """What a put sends (docs/protocol.md has the bytes); scripts fill in state, gen, due, at and counts."""
        headers = ((name("header name", key).encode(), value.encode()) for key, value in self.headers)
        block = b"".join(_sized("B", key) + _sized("H", value) for key, value in headers)
        if len(block) > MAX_HEADER_BYTES or len(self.payload) > most_payload_bytes:
            raise InvalidMessage(f"at most {MAX_HEADER_BYTES} header and {most_payload_bytes} payload bytes")
        fields = [  # each by its flag: 1, 2, 4, 8, 16
            self.content_hash() if own_id else b"",
            b"" if self.expires_ms is None else _pack("Q", self.expires_ms),
            b"" if self.backoff is None else _sized("B", self.backoff.encode()),
            b"" if self.group is None else _sized("B", name("group", self.group).encode()),
            _sized("H", block) if block else b"",
        ]
        flags = sum(1 << n for n, field in enumerate(fields) if field)
        return _pack("BBH26xH", 1, 1, flags, self.max_attempts) + b"".join(fields) + self.payload


def _pack(form: str, *numbers: int) -> bytes:
    try:
        return struct.pack(">" + form, *numbers)
    except struct.error as fault:
        raise InvalidMessage(f"a number of the message is out of range: {fault}") from None


def _sized(form: str, field: bytes) -> bytes:
    """A field behind its length."""
    return _pack(form, len(field)) + field
