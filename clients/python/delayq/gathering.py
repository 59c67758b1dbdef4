"""Gathering: while one pipeline is under way, what callers ask meanwhile goes together into the next.

What is asked of one message is never asked in the same pipeline: a cancel finds the put that was asked for before it.
"""

import threading
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from .items import Answer, Item
from .runtime import Runtime

#: What goes into one pipeline. A caller's own items stay together, however many there are.
MAX_ITEMS = 1000
MAX_BYTES = 1024 * 1024
#: What is carried out also where nobody waits for it any more: a message that was settled stays settled.
_SETTLES = frozenset({"ack", "release", "bury"})


class _Job:
    """What one caller asks, and the answers."""

    def __init__(self, items: Sequence[Item]) -> None:
        self.items = items
        self.answers: list[Answer | Exception] | None = None
        self.bytes = sum(len(arg) for item in items for arg in item.args if isinstance(arg, bytes))
        #: The messages that it is about, and those of them that it changes. An extend may come before or behind anything.
        self.names = {_message(item) for item in items if item.verb != "extend"}
        self.changes = {_message(item) for item in items if item.verb not in ("extend", "peek")}

    @property
    def settles(self) -> bool:
        return any(item.verb in _SETTLES for item in self.items)


class Gathering:
    """The callers of one client, of which one at a time carries out what all have asked until then."""

    def __init__(
        self, carry_out: Callable[[Sequence[Item]], Awaitable[list[Answer | Exception]]], runtime: Runtime
    ) -> None:
        self._carry_out, self._runtime = carry_out, runtime
        self._mutex = threading.Lock()
        self._waiting: deque[_Job] = deque()
        self._turn = runtime.lock()

    async def join(self, items: Sequence[Item]) -> list[Answer | Exception]:
        """The answer to each item. Where the caller gives up, items that are not under way are not sent."""
        job = _Job(items)
        with self._mutex:
            self._waiting.append(job)
        try:
            await self._runtime.shielded(self._lead(job))
        except BaseException:
            self._leave(job)
            raise
        assert job.answers is not None, "a job is answered before its caller's turn ends"
        return job.answers

    def _leave(self, job: _Job) -> None:
        """Nobody waits for this job."""
        with self._mutex, suppress(ValueError):
            if not job.settles:
                self._waiting.remove(job)
                job.answers = []

    async def _lead(self, job: _Job) -> None:
        async with self._turn:
            while job.answers is None:
                await self._flight(self._gathered())

    def _gathered(self) -> list[_Job]:
        jobs: list[_Job] = []
        items, size = 0, 0
        names: set[object] = set()
        changes: set[object] = set()
        with self._mutex:
            while self._waiting:
                first = self._waiting[0]
                items, size = items + len(first.items), size + first.bytes
                is_apart = first.changes & names or first.names & changes
                if jobs and (items > MAX_ITEMS or size > MAX_BYTES or is_apart):
                    break
                jobs.append(self._waiting.popleft())
                names, changes = names | first.names, changes | first.changes
        return jobs

    async def _flight(self, jobs: list[_Job]) -> None:
        fault: Exception = RuntimeError("the thread that carried this call out was interrupted")
        try:
            answers = iter(await self._carry_out([item for job in jobs for item in job.items]))
            for job in jobs:
                job.answers = [next(answers) for _ in job.items]
        except Exception as raised:
            fault = raised
        finally:
            for job in jobs:
                if job.answers is None:
                    job.answers = [fault] * len(job.items)


def _message(item: Item) -> tuple[object, object]:
    """By its topic and id, or by the shard and the receipt."""
    return (item.head[0] if item.head else item.place), item.args[0]
