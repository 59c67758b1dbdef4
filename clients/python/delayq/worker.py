"""Workers: a handler for each topic, and everything around it.

A handler that returns acks its message. One that raises releases it, by the back-off of the message or its topic; `Bury`
moves it to the dead letters. A handler may also settle its delivery itself.
"""

import asyncio
import inspect
import logging
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from queue import SimpleQueue
from typing import Any

from .client import AsyncClient, Client, core_of
from .consumer import Consuming
from .delivery import AsyncDelivery, Delivery, Leased, release_item
from .errors import Bury, InvalidArgument
from .reserving import Reserving
from .runtime import Task, drive, settled

#: How long a worker that is stopped waits for its handlers.
GRACE = timedelta(seconds=30)
_SIGNALS = signal.SIGTERM, signal.SIGINT

log = logging.getLogger("delayq")


class _Working:
    """What workers of either kind share: as many runners as may work at once, each with one message at a time."""

    def __init__(
        self, client: Reserving, handlers: Mapping[str, Callable[[Any], Any]], concurrency: int,
        lease: timedelta | None, ended: Callable[[BaseException], None],
    ) -> None:
        if not isinstance(handlers, Mapping) or not all(callable(handler) for handler in handlers.values()):
            raise InvalidArgument(f"handlers must be a mapping of topics to functions, not {handlers!r}")
        self._client, self._handlers, self._concurrency = client, dict(handlers), concurrency
        self._consuming = Consuming(client, list(handlers), concurrency, lease)
        self._ended = ended
        self._runners: list[Task] = []

    async def start(self) -> None:
        """Raises what is wrong with the deployment; a Redis that cannot be used now is waited for."""
        await self._consuming.check()
        spawn = self._client._runtime.spawn
        self._runners = [spawn(self._run, f"delayq-worker-{n}") for n in range(self._concurrency)]

    async def stop(self, grace: timedelta) -> None:
        """Takes no more messages, waits for the handlers that run, and gives back what they have not settled in time."""
        self._consuming.stop_taking()
        until_s = time.monotonic() + grace.total_seconds()
        left = 0
        for runner in self._runners:
            if not await runner.join(max(until_s - time.monotonic(), 0)):
                left += 1
                runner.cancel()
        if left:
            log.warning("%d handlers did not end in time; their messages are given back", left)
        await self._consuming.stop()

    async def _run(self) -> None:
        try:
            while (delivery := await self._consuming.next()) is not None:
                await self._work(delivery)
        except BaseException as fault:
            if self._consuming.is_stopped:
                raise
            self._ended(fault)

    async def _work(self, delivery: Leased) -> None:
        """Has one message handled, and settles it."""
        try:
            await settled(self._handlers[delivery.topic](delivery))
            item = delivery.receipt.item("ack")
        except Bury as why:
            item = delivery.receipt.item("bury", str(why))
        except Exception as fault:
            log.warning("%s of %s was not delivered, and is tried again: %r", delivery.id, delivery.topic, fault)
            item = release_item(delivery.receipt, None, reason=f"{type(fault).__name__}: {fault}")
        if delivery.is_settled:
            return
        try:
            await delivery._settle(item)
        except Exception as fault:
            log.warning("%s was not settled, and comes again when its lease runs out: %s", delivery.id, fault)


class Worker:
    """Has messages handled in threads, until it is stopped. Whatever ends one of them ends it as a whole.

        worker = Worker(client, {"orders": cancel_if_unpaid}, concurrency=10)
        worker.run()

    Topics are served in the order of `handlers`, the first that has something first. Leases (None: as long as the topic
    says) are extended while handlers run. An outage of Redis is waited for.
    """

    def __init__(
        self, client: Client, handlers: Mapping[str, Callable[[Delivery], object]], *,
        concurrency: int = 10, lease: timedelta | None = None, grace: timedelta = GRACE,
    ) -> None:
        for topic, handler in handlers.items() if isinstance(handlers, Mapping) else ():
            if inspect.iscoroutinefunction(handler):
                raise InvalidArgument(f"the handler of {topic} is asynchronous: use AsyncWorker")
        self._ends: SimpleQueue[BaseException | None] = SimpleQueue()
        self._working = _Working(core_of(client, Client), handlers, concurrency, lease, self._ends.put)
        self._grace, self._runs = grace, False

    def run(self) -> None:
        """Works until SIGTERM, SIGINT or `stop`, and gives messages back that no handler has finished within `grace`.
        A second signal ends the process at once. Raises what is wrong with the deployment."""
        is_main = threading.current_thread() is threading.main_thread()
        before = {one: signal.signal(one, lambda *_: self._ends.put(None)) for one in _SIGNALS if is_main}
        self._runs = True
        try:
            self.start()
            end = self._ends.get()
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)
        drive(self._working.stop(self._grace))
        if end is not None:
            raise end

    def start(self) -> None:
        """Works from now on, in threads of its own. Raises what is wrong with the deployment."""
        drive(self._working.start())

    def stop(self) -> None:
        """Has `run` end, or ends what `start` began."""
        self._ends.put(None)
        if not self._runs:
            drive(self._working.stop(self._grace))


class AsyncWorker:
    """Has messages handled in tasks of the event loop, until it is stopped.

        worker = AsyncWorker(client, {"orders": cancel_if_unpaid}, concurrency=100)
        await worker.run()

    Otherwise as `Worker`. Handlers that have not ended within `grace` are cancelled.
    """

    def __init__(
        self, client: AsyncClient, handlers: Mapping[str, Callable[[AsyncDelivery], Awaitable[object]]], *,
        concurrency: int = 100, lease: timedelta | None = None, grace: timedelta = GRACE,
    ) -> None:
        self._fault: BaseException | None = None
        self._end = asyncio.Event()
        self._working = _Working(core_of(client, AsyncClient), handlers, concurrency, lease, self._note_end)
        self._grace, self._runs = grace, False

    async def run(self) -> None:
        """Works until SIGTERM, SIGINT or `stop`, and gives messages back that no handler has finished within `grace`.
        A second signal ends the process at once. Raises what is wrong with the deployment."""
        self._runs, loop = True, asyncio.get_running_loop()
        with suppress(NotImplementedError, RuntimeError):  # not on every system, nor outside the main thread
            for one in _SIGNALS:
                loop.add_signal_handler(one, self._end.set)
        try:
            await self.start()
            await self._end.wait()
        finally:
            with suppress(NotImplementedError, RuntimeError):
                for one in _SIGNALS:
                    loop.remove_signal_handler(one)
            await self._working.stop(self._grace)
        if self._fault is not None:
            raise self._fault

    async def start(self) -> None:
        """Works from now on, in tasks of its own. Raises what is wrong with the deployment."""
        await self._working.start()

    async def stop(self) -> None:
        """Has `run` end, or ends what `start` began."""
        self._end.set()
        if not self._runs:
            await self._working.stop(self._grace)

    def _note_end(self, fault: BaseException) -> None:
        is_cancelled = isinstance(fault, asyncio.CancelledError)
        self._fault = RuntimeError("a handler was cancelled by another one than its worker") if is_cancelled else fault
        self._end.set()
