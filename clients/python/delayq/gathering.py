"""Batching: calls that arrive during a flight share the next flight.

Items of the same message never share a pipeline: a cancel finds the earlier put.
"""

import threading
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from .items import Answer, Item
from .runtime import Bell, Runtime

#: Limits of a pipeline. The items of one caller stay together, whatever their number.
MAX_ITEMS = 1000
MAX_BYTES = 1024 * 1024
#: Verbs carried out even without a waiting caller: a settled message stays settled.
_SETTLES = frozenset({"ack", "release", "bury"})


class _Job:
    """The items of one caller, and the answers."""

    def __init__(self, items: Sequence[Item], bell: Bell) -> None:
        self.items, self.bell = items, bell
        self.answers: list[Answer | Exception] | None = None
        self.is_abandoned = False
        self.bytes = sum(len(arg) for item in items for arg in item.args if isinstance(arg, bytes))
        #: Messages of the items, and whether they change. An extend needs no order.
        self.names = [(_message(item), item.verb != "peek") for item in items if item.verb != "extend"]


class Gathering:
    """Batches the callers of one client. One caller at a time leads: it sends the items of all, and then names the next leader.
    All others sleep until they are answered or named, so that a flight wakes each of them once."""

    def __init__(
        self, carry_out: Callable[[Sequence[Item]], Awaitable[list[Answer | Exception]]], runtime: Runtime
    ) -> None:
        self._carry_out, self._runtime = carry_out, runtime
        self._mutex = threading.Lock()
        self._waiting: deque[_Job] = deque()
        #: Without a leader, nobody waits.
        self._leader: _Job | None = None

    async def join(self, items: Sequence[Item]) -> list[Answer | Exception]:
        """Returns the answer to each item. If the caller is cancelled, queued items are not sent."""
        job = _Job(items, self._runtime.bell())
        try:
            with self._mutex:
                self._waiting.append(job)
                self._leader = self._leader or job
            if self._leader is not job:
                await job.bell.wait(None)
            if job.answers is None:
                await self._runtime.shielded(self._lead(job))
        except BaseException:
            if self._leave(job):
                await self.join([])
            raise
        assert job.answers is not None, "a job is answered before its caller is woken, or by its caller"
        return job.answers

    def _leave(self, job: _Job) -> bool:
        """Removes an abandoned job, unless it is on its way, and returns whether settles are left that nobody sends."""
        with self._mutex:
            if job in self._waiting:
                job.is_abandoned = True
                if all(item.verb not in _SETTLES for item in job.items):
                    self._waiting.remove(job)
                    job.answers = []
                if self._leader is job:  # named, and not yet leading
                    self._name()
            return self._leader is None and bool(self._waiting)

    async def _lead(self, job: _Job) -> None:
        try:
            while self._leads_on(job):
                await self._flight(job)
        except BaseException:
            with self._mutex:
                if self._leader is job:
                    self._name()
            raise

    def _leads_on(self, job: _Job) -> bool:
        """Returns whether the leader has to send more: its own items, or settles that have no caller left to lead."""
        with self._mutex:
            if self._leader is job and job.answers is not None:
                self._name()
                if self._leader is None and self._waiting:
                    self._leader = job
            return self._leader is job

    def _name(self) -> None:
        """Names the next leader, if there is one."""
        self._leader = next((job for job in self._waiting if not job.is_abandoned), None)
        if self._leader is not None:
            self._leader.bell.ring()

    def _gather(self, jobs: list[_Job]) -> None:
        """Moves the jobs of one flight into the list."""
        items, size = 0, 0
        seen: dict[object, bool] = {}
        with self._mutex:
            while self._waiting:
                first = self._waiting[0]
                items, size = items + len(first.items), size + first.bytes
                is_apart = any(name in seen and (changes or seen[name]) for name, changes in first.names)
                if jobs and (items > MAX_ITEMS or size > MAX_BYTES or is_apart):
                    break
                jobs.append(self._waiting.popleft())
                for name, changes in first.names:
                    seen[name] = changes or seen.get(name, False)

    async def _flight(self, leader: _Job) -> None:
        jobs: list[_Job] = []
        fault: Exception = RuntimeError("the thread that carried this call out was interrupted")
        try:
            self._gather(jobs)
            answers = iter(await self._carry_out([item for job in jobs for item in job.items]))
            for job in jobs:
                job.answers = [next(answers) for _ in job.items]
        except Exception as raised:
            fault = raised
        finally:
            for job in jobs:
                if job.answers is None:
                    job.answers = [fault] * len(job.items)
                if job is not leader:
                    job.bell.ring()


def _message(item: Item) -> tuple[object, object]:
    """The key of a message: topic and id, or shard and receipt."""
    return (item.head[0] if item.head else item.place), item.args[0]
