"""Stored messages, as specified in docs/protocol.md."""

import struct
from dataclasses import dataclass
from datetime import datetime

from .message import Backoff
from .names import id_and_group, name
from .protocol import (
    FLAG_BACKOFF,
    FLAG_BLOCKED,
    FLAG_BLOCKS,
    FLAG_DOOMED,
    FLAG_EXPIRES,
    FLAG_FIRST,
    FLAG_LIFETIME,
    FLAG_GROUP,
    FLAG_HASH,
    FLAG_HEADERS,
    FLAG_HELD,
    FLAG_PAUSED,
    FLAG_REASON,
    FLAG_ZSTD,
    KNOWN_FLAGS,
    STATES,
    State,
)
from .times import as_datetime


@dataclass
class Stored:
    """A message, or the record of a finished message. Times are on the Redis clock."""

    topic: str
    id: str
    shard: int = 0
    state: State = State.MALFORMED
    payload: bytes = b""
    due_ms: int = 0
    #: Time of the last change of state; for a leased message, the end of the lease.
    at_ms: int = 0
    #: Deliveries that `max_attempts` limits, and all deliveries.
    attempt: int = 0
    delivery: int = 0
    #: 0 means no limit.
    max_attempts: int = 0
    expires_ms: int | None = None
    backoff: Backoff | None = None
    group: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    #: For `Message.expected_content`: 16 hex digits, of a message with an own id.
    content_hash: str | None = None
    #: Cancelled while leased: the message will not be retried.
    doomed: bool = False
    #: Failed, while its topic lets a failed message block its group: the others of its group wait for it.
    blocks: bool = False
    #: Ready, but waiting for others of its group, or because its group is paused or blocked.
    held: bool = False
    #: Leased, and a throttled put waits behind it, which takes its place when the lease ends.
    has_successor: bool = False
    #: Ready, and its group is paused.
    paused: bool = False
    #: Ready, and a failed message blocks its group.
    blocked: bool = False
    #: Reason of a dead letter, or the fault of an unreadable message.
    reason: str | None = None

    @property
    def due(self) -> datetime:
        """The due time."""
        return as_datetime(self.due_ms)

    @property
    def expires(self) -> datetime | None:
        return None if self.expires_ms is None else as_datetime(self.expires_ms)

    def read(self, stored: bytes) -> bool:
        """Decodes the envelope, and returns whether the payload is compressed. Raises a ValueError if invalid."""
        if stored[:1] > b"\1":
            self.state = State.NEWER
            raise ValueError(f"an envelope of format {stored[0]}, newer than this client knows (1)")
        fields = _Fields(stored)
        form, state, flags, self.due_ms, self.at_ms, self.delivery, self.attempt, self.max_attempts = struct.unpack(
            ">BBH4xQQIHH", fields.take(32)
        )
        if form != 1 or not 1 <= state <= len(STATES):
            raise ValueError(f"malformed envelope: format {form}, state {state}")
        if unknown := flags & ~KNOWN_FLAGS:
            self.state = State.NEWER
            raise ValueError(f"an envelope with newer flags ({unknown:#06x}): upgrade delayq here first")
        self.content_hash = fields.take(8).hex() if flags & FLAG_HASH else None
        self.expires_ms = fields.number(8) if flags & FLAG_EXPIRES else None
        self.backoff = Backoff.decode(fields.sized(1)) if flags & FLAG_BACKOFF else None
        if flags & FLAG_GROUP:
            self.group = name("group", fields.text(1))
        fields.take(8 if flags & FLAG_LIFETIME else 0)
        fields.take(8 if flags & FLAG_FIRST else 0)
        end = fields.number(2) + fields.at if flags & FLAG_HEADERS else 0
        while fields.at < end:
            self.headers += ((fields.text(1), fields.text(2)),)
        if flags & FLAG_REASON:
            self.reason = fields.reason()
        self.state, self.doomed = STATES[state - 1], bool(flags & FLAG_DOOMED)
        self.held, self.paused = bool(flags & FLAG_HELD), bool(flags & FLAG_PAUSED)
        self.blocks, self.blocked = bool(flags & FLAG_BLOCKS), bool(flags & FLAG_BLOCKED)
        if self.state is State.LEASED:
            self.held, self.has_successor = False, self.held
        self.payload = fields.rest()
        return bool(flags & FLAG_ZSTD)


def named(topic: str, stored_id: bytes, shard: int) -> Stored:
    """Returns a message of which only the name is known."""
    id, group = id_and_group(stored_id)
    return Stored(topic, id, shard, group=group)


class _Fields:
    """Reads the fields of an envelope in order."""

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
        """Splits the reason, followed by its length, from the end."""
        size = int.from_bytes(self._stored[-2:], "big")
        if self.at + size + 2 > len(self._stored):
            raise ValueError("malformed envelope: cut short")
        reason, self._stored = self._stored[-2 - size : -2], self._stored[: -2 - size]
        return reason.decode(errors="replace")

    def rest(self) -> bytes:
        return self._stored[self.at :]
