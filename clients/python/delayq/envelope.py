"""The envelope: how a message is stored. docs/protocol.md has it byte by byte."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Literal

from .ids import InvalidMessage, printable

FORMAT = 1
HEAD = struct.Struct(">BBHIQQIHH")
STATES = ("", "delayed", "ready", "leased", "dead", "delivered", "cancelled", "expired", "purged")
HASH, EXPIRES, BACKOFF, GROUP, HEADERS, ZSTD, DOOMED, REASON = (1 << n for n in range(8))
_KINDS: tuple[Literal["fixed", "exponential", "list"], ...] = ("fixed", "exponential", "list")


class EnvelopeError(ValueError):
    """Bytes that are no envelope of a format known here."""


class NewerEnvelope(EnvelopeError):
    """An envelope of a later format: upgrade this client first."""


@dataclass(frozen=True)
class Backoff:
    """How long a message rests before it is tried again: one delay, the first and the longest, or one a try."""

    kind: Literal["fixed", "exponential", "list"]
    delays_ms: tuple[int, ...]

    def encode(self) -> bytes:
        return struct.pack(f">B{len(self.delays_ms)}I", _KINDS.index(self.kind) + 1, *self.delays_ms)

    @classmethod
    def decode(cls, spec: bytes) -> Backoff:
        count, rest = divmod(len(spec) - 1, 4)
        if rest or not 1 <= spec[0] <= 3 or count < 1 or (spec[0] < 3 and count != spec[0]):
            raise EnvelopeError("malformed envelope: back-off")
        return cls(_KINDS[spec[0] - 1], struct.unpack(f">{count}I", spec[1:]))


@dataclass(frozen=True)
class Envelope:
    """A stored message, or the marker of one that is over. Times are ms since the epoch, on Redis's clock."""

    state: str = "delayed"
    gen: int = 0
    due_ms: int = 0
    #: When it came into its state; for a leased one, when the lease ends.
    at_ms: int = 0
    delivery: int = 0
    attempt: int = 0
    max_attempts: int = 0
    doomed: bool = False
    #: The payload is a zstd frame.
    zstd: bool = False
    hash: bytes | None = None
    expires_ms: int | None = None
    backoff: Backoff | None = None
    group: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    payload: bytes = b""
    reason: str | None = None

    def encode(self) -> bytes:
        fields = [
            (HASH, self.hash),
            (EXPIRES, None if self.expires_ms is None else struct.pack(">Q", self.expires_ms)),
            (BACKOFF, None if self.backoff is None else _short(self.backoff.encode())),
            (GROUP, None if self.group is None else _short(self.group.encode())),
            (HEADERS, _headers(self.headers) if self.headers else None),
        ]
        flags = sum(flag for flag, field in fields if field is not None)
        flags |= ZSTD * self.zstd | DOOMED * self.doomed | REASON * (self.reason is not None)
        head = HEAD.pack(FORMAT, STATES.index(self.state), flags, self.gen, self.due_ms, self.at_ms,
                         self.delivery, self.attempt, self.max_attempts)
        reason = b"" if self.reason is None else self.reason.encode()
        tail = b"" if self.reason is None else reason + struct.pack(">H", len(reason))
        return head + b"".join(field or b"" for _, field in fields) + self.payload + tail

    @classmethod
    def decode(cls, stored: bytes) -> Envelope:
        if stored and stored[0] > FORMAT:
            raise NewerEnvelope(f"format {stored[0]} is newer than this client knows ({FORMAT})")
        read = _Reader(stored)
        _, state, flags, gen, due, at, delivery, attempt, most = HEAD.unpack(read.take(HEAD.size))
        if not 1 <= state < len(STATES):
            raise EnvelopeError("malformed envelope: no such state")
        content_hash = read.take(8) if flags & HASH else None
        live = flags if state <= 4 else 0
        expires = int.from_bytes(read.take(8), "big") if live & EXPIRES else None
        backoff = Backoff.decode(read.short()) if live & BACKOFF else None
        group = _group(read.short()) if live & GROUP else None
        headers = read.headers() if live & HEADERS else ()
        reason = read.reason() if live & REASON else None
        return cls(STATES[state], gen, due, at, delivery, attempt, most, bool(flags & DOOMED), bool(flags & ZSTD),
                   content_hash, expires, backoff, group, headers, read.rest if state <= 4 else b"", reason)


class _Reader:
    def __init__(self, rest: bytes) -> None:
        self.rest = rest

    def take(self, n: int) -> bytes:
        if len(self.rest) < n:
            raise EnvelopeError("malformed envelope: cut short")
        head, self.rest = self.rest[:n], self.rest[n:]
        return head

    def short(self) -> bytes:
        return self.take(self.take(1)[0])

    def long(self) -> bytes:
        return self.take(int.from_bytes(self.take(2), "big"))

    def headers(self) -> tuple[tuple[str, str], ...]:
        block, pairs = _Reader(self.long()), []
        while block.rest:
            pairs.append((_text(block.short()), _text(block.long())))
        return tuple(pairs)

    def reason(self) -> str:
        """It stands at the very end, its length behind it."""
        at = len(self.rest) - 2 - int.from_bytes(self.rest[-2:], "big")
        if len(self.rest) < 2 or at < 0:
            raise EnvelopeError("malformed envelope: cut short")
        reason, self.rest = self.rest[at:-2], self.rest[:at]
        return reason.decode(errors="replace")


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise EnvelopeError("malformed envelope: text that is not UTF-8") from None


def _group(raw: bytes) -> str:
    try:
        return printable("group", _text(raw))
    except InvalidMessage:
        raise EnvelopeError("malformed envelope: group") from None


def _short(field: bytes) -> bytes:
    return struct.pack(">B", len(field)) + field


def _headers(headers: tuple[tuple[str, str], ...]) -> bytes:
    block = b"".join(_short(name.encode()) + struct.pack(">H", len(value.encode())) + value.encode()
                     for name, value in headers)
    return struct.pack(">H", len(block)) + block
