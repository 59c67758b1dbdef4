"""What a reserve hands out: messages under lease."""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from .names import id_text, name

HASH, EXPIRES, BACKOFF, GROUP, HEADERS, ZSTD = (1 << n for n in range(6))


class Receipt(NamedTuple):
    """The right to settle one delivery of one message."""

    shard: int
    raw: bytes


@dataclass
class Delivery:
    """A message under lease. Its attempt and delivery count this one; times are on Redis's clock."""

    receipt: Receipt
    topic: str
    id: str
    ready_us: int
    lease_end_ms: int
    payload: bytes = b""
    due_ms: int = 0
    attempt: int = 0
    delivery: int = 0
    max_attempts: int = 0
    expires_ms: int | None = None
    group: str | None = None
    headers: tuple[tuple[str, str], ...] = ()

    def read(self, stored: bytes) -> bool:
        """Reads its envelope, of which docs/protocol.md has the bytes. Returns whether the payload is compressed.
        Raises a ValueError where it is none."""
        if stored[:1] > b"\1":
            raise ValueError(f"an envelope of format {stored[0]}, newer than this client knows (1)")
        at = 0

        def take(n: int) -> bytes:
            nonlocal at
            at += n
            if at > len(stored):
                raise ValueError("malformed envelope: cut short")
            return stored[at - n : at]

        def text(size: int) -> str:
            return take(int.from_bytes(take(size), "big")).decode()

        flags, self.due_ms, delivery, attempt, self.max_attempts = struct.unpack(">xxH4xQ8xIHH", take(32))
        self.delivery, self.attempt = delivery + 1, min(attempt + 1, 65535)
        take(8 if flags & HASH else 0)
        self.expires_ms = int.from_bytes(take(8), "big") if flags & EXPIRES else None
        take(take(1)[0] if flags & BACKOFF else 0)
        self.group = name("group", text(1)) if flags & GROUP else None
        end = at + 2 + int.from_bytes(take(2), "big") if flags & HEADERS else 0
        while at < end:
            self.headers += ((text(1), text(2)),)
        self.payload = stored[at:]
        return bool(flags & ZSTD)


def deliveries(shard: int, topics: Sequence[str], items: Sequence[Any]) -> Iterator[tuple[Delivery, bytes]]:
    """What a reserve answered behind its numbers, each with its envelope."""
    rest = iter(items)
    for place in rest:
        lease_end_ms, count = next(rest), next(rest)
        for _ in range(count):
            ready_us, raw, stored = next(rest), next(rest), next(rest)
            message_id = id_text(raw[raw.index(b":") + 1 : -4])
            yield Delivery(Receipt(shard, raw), topics[place - 1], message_id, ready_us, lease_end_ms), stored
