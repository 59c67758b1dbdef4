"""Durability: writes that are answered only after replicas or disk confirm. No I/O.

A script refuses a call that does not wait as the topic requires, before any write. The refusal teaches the client the
durability, which is cached for some seconds; the first call after that does not wait, and asks again.
"""

import re
import threading
import time
from collections.abc import Sequence
from typing import Any

from .errors import ScriptError, Unconfirmed

#: Required confirmations, separated by spaces, such as "disk replica:1"; empty for none.
Waits = str
#: Key of the durabilities of all topics, for changes of groups.
EVERY_TOPIC = ""
#: How long a learned durability is cached.
BELIEVED_S = 10.0


class Durabilities:
    """The known durabilities of topics. Threads may share the cache."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._known: dict[str, tuple[Waits, float]] = {}

    def waits(self, topic: str) -> Waits:
        """Returns the required confirmations; empty if none are known."""
        with self._mutex:
            waits, until_s = self._known.get(topic, ("", 0.0))
            if waits and until_s < time.monotonic():
                del self._known[topic]
                return ""
            return waits

    def is_learned(self, topic: str, answer: Any) -> bool:
        """Reports whether a call was refused for its durability, and caches the durability."""
        if not isinstance(answer, ScriptError) or answer.code != "DQDURABILITY":
            return False
        asked = {str(answer).split()[1]}
        if topic == EVERY_TOPIC:
            asked |= set(self.waits(topic).split())
        with self._mutex:
            self._known[topic] = " ".join(sorted(asked)), time.monotonic() + BELIEVED_S
        return True


class Confirming:
    """Sent at the end of a pipeline, on the same connection: newer servers count from the last write of a connection."""

    def __init__(self, waits: Waits, within_ms: int) -> None:
        words = waits.split()
        self._waits, self._is_disk = waits, "disk" in words
        self._replicas = max((int(count) for count in re.findall(r"replica:(\d)", waits)), default=0)
        # Redis runs both commands in sequence, and treats a timeout of 0 as infinite.
        self._within_ms = max(1, within_ms // (self._is_disk + (self._replicas > 0) or 1))

    def commands(self) -> list[tuple[str | int, ...]]:
        disk = [("WAITAOF", 1, 0, self._within_ms)] if self._is_disk else []
        return [*disk, ("WAIT", self._replicas, self._within_ms)] if self._replicas else [*disk]

    def confirmed(self, replies: Sequence[Any]) -> list[Any]:
        """Returns the replies of the calls, or an error each if a confirmation is missing."""
        count = len(self.commands())
        answers = list(replies[: len(replies) - count])
        whys = [why for reply, command in zip(replies[len(answers) :], self.commands()) if (why := self._why(command[0], reply))]
        if not whys:
            return answers
        fault = Unconfirmed(self._waits, "; ".join(whys))
        return [answer if isinstance(answer, Exception) else fault for answer in answers]

    def _why(self, command: str | int, reply: Any) -> str | None:
        if isinstance(reply, Exception):
            return f"{command}: {reply}"
        if command == "WAITAOF":
            return None if reply[0] else f"no confirmation from the master's disk within {self._within_ms} ms"
        if reply >= self._replicas:
            return None
        return f"{reply} of {self._replicas} replicas confirmed within {self._within_ms} ms"
