"""Gathering: while one pipeline is under way, what callers ask meanwhile goes together into the next."""

from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from .items import Answer, Item
from .runtime import Runtime

#: What goes into one pipeline. A caller's own items stay together, however many there are.
MAX_ITEMS = 1000
MAX_BYTES = 1024 * 1024


class _Job:
    """What one caller asks, and the answers."""

    def __init__(self, items: Sequence[Item]) -> None:
        self.items = items
        self.answers: list[Answer | Exception] | None = None
        self.bytes = sum(len(arg) for item in items for arg in item.args if isinstance(arg, bytes))


class Gathering:
    """The callers of one client, of which one at a time carries out what all have asked until then."""

    def __init__(
        self, carry_out: Callable[[Sequence[Item]], Awaitable[list[Answer | Exception]]], runtime: Runtime
    ) -> None:
        self._carry_out, self._runtime = carry_out, runtime
        self._waiting: deque[_Job] = deque()
        self._turn = runtime.lock()

    async def join(self, items: Sequence[Item]) -> list[Answer | Exception]:
        """The answer to each item. A caller that is cancelled leaves its items to be carried out."""
        job = _Job(items)
        self._waiting.append(job)
        await self._runtime.shielded(self._lead(job))
        assert job.answers is not None, "a job is answered before its caller's turn ends"
        return job.answers

    async def _lead(self, job: _Job) -> None:
        async with self._turn:
            while job.answers is None:
                await self._flight(self._gathered())

    def _gathered(self) -> list[_Job]:
        jobs, items, size = [self._waiting.popleft()], 0, 0
        while self._waiting:
            items, size = items + len(jobs[-1].items), size + jobs[-1].bytes
            first = self._waiting[0]
            if items + len(first.items) > MAX_ITEMS or size + first.bytes > MAX_BYTES:
                break
            jobs.append(self._waiting.popleft())
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
