"""A message as its producer hands it over, and what a put carries of it."""

from __future__ import annotations

import hashlib
import re
import struct
from dataclasses import dataclass

from .envelope import Backoff, Envelope
from .ids import InvalidMessage, MessageId, printable, topic_name

MAX_TIME_MS = (1 << 53) - 1
MAX_HEADER_BYTES = 16 * 1024
MAX_PAYLOAD_BYTES = 1024 * 1024


@dataclass(frozen=True)
class Message:
    """A message to be delivered at its due time: `at_ms`, or `after_ms` from the put, both on Redis's clock."""

    topic: str
    payload: bytes | str
    #: The producer's own id as text, an id as it was generated, or none: then one is generated.
    id: str | MessageId | None = None
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
    #: A repeat of a put whose fate is unknown: when it was first tried, ms since the epoch.
    first_tried_ms: int | None = None

    def check(self, most_payload_bytes: int) -> None:
        """Refuses what no deployment takes, before anything is sent."""
        topic_name(self.topic)
        if self.group is not None:
            printable("group", self.group)
        if len(self.body) > most_payload_bytes:
            raise InvalidMessage(f"the payload has {len(self.body)} bytes; at most {most_payload_bytes} are allowed")
        for name, _ in self.headers:
            if not re.fullmatch("[!-~]{1,255}", name):
                raise InvalidMessage(f"header name {name[:40]!r} is not 1 to 255 printable ASCII characters")
        size = sum(len(name) + len(value.encode()) + 3 for name, value in self.headers)
        if size > MAX_HEADER_BYTES:
            raise InvalidMessage(f"the headers have {size} bytes; at most {MAX_HEADER_BYTES} are allowed")
        if self.at_ms is not None and not 0 < self.at_ms <= MAX_TIME_MS:
            raise InvalidMessage(f"the due time {self.at_ms} ms is not between 1 and {MAX_TIME_MS}")
        if self.after_ms < 0 or not 0 <= self.max_attempts < 1 << 16:
            raise InvalidMessage("a delay is not negative, and attempts are 0 to 65535")
        if self.at_ms is not None and self.expires_ms is not None and self.expires_ms <= self.at_ms:
            raise InvalidMessage(f"it expires at {self.expires_ms} ms, not after its due time {self.at_ms} ms")
        if self.backoff is not None:
            _check_backoff(self.backoff)

    @property
    def body(self) -> bytes:
        return self.payload.encode() if isinstance(self.payload, str) else self.payload

    @property
    def due(self) -> str:
        return f"+{self.after_ms}" if self.at_ms is None else str(self.at_ms)

    @property
    def options(self) -> str:
        words = ["replace"] if self.replace else []
        if self.first_tried_ms is not None:
            words.append(f"tried={self.first_tried_ms}")
        return " ".join(words)

    def content_hash(self) -> bytes:
        """What tells the repeat of a put from another message with the same id; the due time is left out."""
        digest = hashlib.sha256()
        texts = [self.topic, self.group or "", *(text for pair in self.headers for text in pair)]
        for field in [*(text.encode() for text in texts), self.body]:
            digest.update(struct.pack(">I", len(field)) + field)
        return digest.digest()[:8]

    def envelope(self, message_id: MessageId) -> bytes:
        """What a put sends: scripts fill in state, gen, due, at, delivery and attempt."""
        return Envelope(
            max_attempts=self.max_attempts,
            hash=None if message_id.generated else self.content_hash(),
            expires_ms=self.expires_ms,
            backoff=self.backoff,
            group=self.group,
            headers=tuple(self.headers),
            payload=self.body,
        ).encode()


def _check_backoff(backoff: Backoff) -> None:
    delays = backoff.delays_ms
    count = {"fixed": len(delays) == 1, "exponential": len(delays) == 2, "list": 1 <= len(delays) <= 32}
    if not count[backoff.kind] or not all(1 <= delay < 1 << 32 for delay in delays):
        raise InvalidMessage("a back-off is 1 ms to 49 days; a list has 1 to 32 of them")
    if backoff.kind == "exponential" and delays[0] > delays[1]:
        raise InvalidMessage("an exponential back-off's first delay is not longer than its longest")
