"""Batching: calls that arrive during a flight share the next flight.

Items of the same message never share a pipeline: a cancel finds the earlier put.
"""

import threading
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from .items import Answer, Item
from .runtime import Runtime

#: Limits of a pipeline. The items of one caller stay together, whatever their number.
MAX_ITEMS = 1000
MAX_BYTES = 1024 * 1024
#: Verbs carried out even without a waiting caller: a settled message stays settled.
_SETTLES = frozenset({"ack", "release", "bury"})


class _Job:
    """The items of one caller, and the answers."""

    def __init__(self, items: Sequence[Item]) -> None:
        self.items = items
        self.answers: list[Answer | Exception] | None = None
        self.bytes = sum(len(arg) for item in items for arg in item.args if isinstance(arg, bytes))
        #: Messages of the items, and the messages that change. An extend needs no order.
        self.names = {_message(item) for item in items if item.verb != "extend"}
        self.changes = {_message(item) for item in items if item.verb not in ("extend", "peek")}

    @property
    def settles(self) -> bool:
        return any(item.verb in _SETTLES for item in self.items)


class Gathering:
    """Batches the callers of one client: one caller at a time sends the items of all."""

    def __init__(
        self, carry_out: Callable[[Sequence[Item]], Awaitable[list[Answer | Exception]]], runtime: Runtime
    ) -> None:
        self._carry_out, self._runtime = carry_out, runtime
        self._mutex = threading.Lock()
        self._waiting: deque[_Job] = deque()
        self._turn = runtime.lock()

    async def join(self, items: Sequence[Item]) -> list[Answer | Exception]:
        """Returns the answer to each item. If the caller is cancelled, queued items are not sent."""
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
        """Removes an abandoned job."""
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
    """The key of a message: topic and id, or shard and receipt."""
    return (item.head[0] if item.head else item.place), item.args[0]
