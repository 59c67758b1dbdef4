"""A message as it is stored. docs/protocol.md has the bytes."""

import struct
from dataclasses import dataclass
from datetime import datetime

from .message import Backoff
from .names import id_and_group, name
from .outcome import State
from .times import as_datetime

HASH, EXPIRES, BACKOFF, GROUP, HEADERS, ZSTD, DOOMED, REASON = (1 << n for n in range(8))
_STATES = [State.DELAYED, State.READY, State.LEASED, State.DEAD]
_STATES += [State.DELIVERED, State.CANCELLED, State.EXPIRED, State.PURGED]


@dataclass
class Stored:
    """A message, or what is remembered of a finished one. Times are on Redis's clock."""

    topic: str
    id: str
    shard: int = 0
    state: State = State.MALFORMED
    payload: bytes = b""
    due_ms: int = 0
    #: When it came into its state; of a leased one, the end of its lease.
    at_ms: int = 0
    #: How often it was tried since its attempts were last counted from the start, and how often it was leased.
    attempt: int = 0
    delivery: int = 0
    #: 0: no bound.
    max_attempts: int = 0
    expires_ms: int | None = None
    backoff: Backoff | None = None
    group: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    #: It was cancelled while it was leased: it will not be tried again.
    doomed: bool = False
    #: Of a dead letter: why it died. Of one that cannot be read: why not.
    reason: str | None = None

    @property
    def due(self) -> datetime:
        """When it is due, or was."""
        return as_datetime(self.due_ms)

    @property
    def expires(self) -> datetime | None:
        return None if self.expires_ms is None else as_datetime(self.expires_ms)

    def read(self, stored: bytes) -> bool:
        """Reads its envelope. Returns whether the payload is compressed. Raises a ValueError where it is invalid."""
        if stored[:1] > b"\1":
            self.state = State.NEWER
            raise ValueError(f"an envelope of format {stored[0]}, newer than this client knows (1)")
        fields = _Fields(stored)
        form, state, flags, self.due_ms, self.at_ms, self.delivery, self.attempt, self.max_attempts = struct.unpack(
            ">BBH4xQQIHH", fields.take(32)
        )
        if form != 1 or not 1 <= state <= len(_STATES):
            raise ValueError(f"malformed envelope: format {form}, state {state}")
        fields.take(8 if flags & HASH else 0)
        self.expires_ms = fields.number(8) if flags & EXPIRES else None
        self.backoff = Backoff.decode(fields.sized(1)) if flags & BACKOFF else None
        if flags & GROUP:
            self.group = name("group", fields.text(1))
        end = fields.number(2) + fields.at if flags & HEADERS else 0
        while fields.at < end:
            self.headers += ((fields.text(1), fields.text(2)),)
        if flags & REASON:
            self.reason = fields.reason()
        self.doomed, self.payload = bool(flags & DOOMED), fields.rest()
        self.state = _STATES[state - 1]
        return bool(flags & ZSTD)


def named(topic: str, stored_id: bytes, shard: int) -> Stored:
    """A message of which only the name is known."""
    id, group = id_and_group(stored_id)
    return Stored(topic, id, shard, group=group)


class _Fields:
    """The fields of an envelope, one after the other."""

    def __init__(self, stored: bytes) -> None:
        self._stored, self.at = stored, 0

    def take(self, size: int) -> bytes:
        self.at += size
        if self.at > len(self._stored):
            raise ValueError("malformed envelope: cut short")
        return self._stored[self.at - size : self.at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def sized(self, size: int) -> bytes:
        return self.take(self.number(size))

    def text(self, size: int) -> str:
        return self.sized(size).decode()

    def reason(self) -> str:
        """What stands at the end: the reason, and behind it its length."""
        size = int.from_bytes(self._stored[-2:], "big")
        if self.at + size + 2 > len(self._stored):
            raise ValueError("malformed envelope: cut short")
        reason, self._stored = self._stored[-2 - size : -2], self._stored[: -2 - size]
        return reason.decode(errors="replace")

    def rest(self) -> bytes:
        return self._stored[self.at :]
