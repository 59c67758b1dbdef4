"""Tracks which shards may have ready messages, and the waiting callers. No I/O."""

import heapq
import threading
import time
from collections import deque
from collections.abc import Iterable

from .protocol import MAX_IDS_A_CALL
from .runtime import Bell


class Asking:
    """The shards to ask for messages of some topics, each with an earliest time."""

    def __init__(self, shards: Iterable[int]) -> None:
        self._mutex = threading.Lock()
        self._now = dict.fromkeys(shards)
        self._later: list[tuple[float, int]] = []
        self._bells: deque[Bell] = deque()
        #: Last use by a caller.
        self.used_s = time.monotonic()

    def ask(self, shards: Iterable[int]) -> None:
        """Schedules shards now, and wakes one waiting caller."""
        with self._mutex:
            self._now.update(dict.fromkeys(shards))
            self._wake()

    def ask_later(self, shard: int, wait_s: float) -> None:
        """Schedules a shard for later."""
        with self._mutex:
            heapq.heappush(self._later, (time.monotonic() + wait_s, shard))

    def take(self, max_messages: int) -> list[tuple[int, int]]:
        """Returns the shards to ask now with the number of messages for each, up to `max_messages` in total; the shard that has
        waited longest is first."""
        with self._mutex:
            while self._later and self._later[0][0] <= time.monotonic():
                self._now[heapq.heappop(self._later)[1]] = None
            shards = list(self._now)[:max_messages]
            for shard in shards:
                del self._now[shard]
        each, more = divmod(max_messages, max(len(shards), 1))
        return [(shard, min(each + (n < more), MAX_IDS_A_CALL)) for n, shard in enumerate(shards)]

    def wait_s(self) -> float:
        """The time until the next scheduled shard."""
        with self._mutex:
            if self._now:
                return 0.0
            return max(self._later[0][0] - time.monotonic(), 0.0) if self._later else threading.TIMEOUT_MAX

    def enter(self, bell: Bell) -> None:
        """Adds a waiting caller."""
        with self._mutex:
            self._bells.append(bell)

    def leave(self, bell: Bell) -> None:
        """Removes a waiting caller; another caller takes over the scheduled shards."""
        with self._mutex:
            self._bells.remove(bell)
            self.used_s = time.monotonic()
            if self._now or self._later:
                self._wake()

    def wake_all(self) -> None:
        with self._mutex:
            for bell in self._bells:
                bell.ring()

    @property
    def is_waited_for(self) -> bool:
        return bool(self._bells)

    def _wake(self) -> None:
        if self._bells:
            self._bells[0].ring()
            self._bells.rotate(-1)
