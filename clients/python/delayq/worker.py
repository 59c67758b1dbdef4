"""Workers call a handler for each message and settle the message by the result.

A return acks the message; a returned `Message` is put as the next one in the same step (`AsyncDelivery.ack`). An exception releases the message, by the back-off of the message or topic; `Bury` moves the message
to the dead letters. A handler may also settle its delivery itself.
"""

import asyncio
import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from datetime import timedelta
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

from .checks import flag, shown
from .client import AsyncClient, Client, core_of
from .consumer import Consuming
from .delivery import AsyncDelivery, Delivery, Leased, settling_item
from .errors import Bury, InvalidArgument
from .protocol import DEFAULT_CONCURRENCY, Word
from .pumping import Pumping
from .reserving import Reserving
from .runtime import Task, drive
from .signals import Signals
from .times import wait_ms

#: How long a stopping worker waits for its handlers.
GRACE = timedelta(seconds=30)
#: Maximum delay of a signal that arrives just before the main thread starts to wait.
TICK_S = 1.0

log = logging.getLogger("delayq")
#: The worker whose handler is the caller.
_handling: ContextVar["_Working | None"] = ContextVar("delayq_handling", default=None)


class _Working:
    """The common part of all workers: `concurrency` runners, each with one message at a time."""

    def __init__(
        self, client: Reserving, handlers: Mapping[str, Callable[[Any], Any]], concurrency: int,
        lease: timedelta | None, grace: timedelta, pump: bool, ended: Callable[[], None],
    ) -> None:
        if not isinstance(handlers, Mapping) or not handlers or not all(map(callable, handlers.values())):
            raise InvalidArgument(f"handlers must be a mapping of topics to functions, not {shown(handlers)}")
        for topic, handler in handlers.items():
            if inspect.isgeneratorfunction(handler) or inspect.isasyncgenfunction(handler):
                raise InvalidArgument(f"the handler of {topic} is a generator, so its body would never run: return instead of yielding")
        self._client, self._handlers, self._concurrency = client, dict(handlers), concurrency
        self._consuming = Consuming(client, list(handlers), concurrency, lease)
        self._grace_s, self._ended = wait_ms("grace", grace) / 1000, ended
        self._pumping = Pumping(client) if flag("pump", pump) else None
        self._runners: list[Task] = []
        self._stopping = client._runtime.lock()
        #: The error that ended the worker.
        self.fault: BaseException | None = None

    async def start(self) -> None:
        """Starts the runners. Raises a fault of the deployment; an outage of Redis raises nothing, since workers wait."""
        if self._runners or self._consuming.is_stopped:
            raise RuntimeError("a worker is started once: make another one")
        await self._consuming.check()
        if self._pumping is not None:
            self._pumping.start()
        spawn = self._client._runtime.spawn
        self._runners = [spawn(self._run, f"delayq-worker-{n}") for n in range(self._concurrency)]

    async def stop(self) -> None:
        """Stops reserving, waits for handlers, and releases unfinished messages, even if the caller is cancelled; in the
        background if the caller is a handler of this worker."""
        self._consuming.stop_taking()
        if _handling.get() is self:
            self._client._runtime.spawn(self._stop, "delayq-stop")
        else:
            await self._client._runtime.shielded(self._stop())

    async def _stop(self) -> None:
        async with self._stopping:
            pumping, self._pumping = self._pumping, None
            if pumping is not None:
                await pumping.stop()
            until_s = time.monotonic() + self._grace_s
            left = [one for one in self._runners if not await one.join(max(until_s - time.monotonic(), 0))]
            for runner in left:
                runner.cancel()
            if left:
                log.warning("%d handlers did not end in time; their messages are released with the attempt kept", len(left))
            await self._consuming.stop()

    async def _run(self) -> None:
        try:
            while (delivery := await self._consuming.next()) is not None:
                await self._work(delivery)
        except BaseException as fault:
            if not self._consuming.is_stopped:
                self._end(fault)
            if isinstance(fault, asyncio.CancelledError):
                raise

    def _end(self, fault: BaseException) -> None:
        """Ends the whole worker: with fewer runners, the concurrency would be wrong."""
        is_cancelled = isinstance(fault, asyncio.CancelledError)
        self.fault = RuntimeError("the worker was cancelled from outside") if is_cancelled else fault
        log.critical("the worker of %s ends, and releases its messages", ", ".join(self._handlers), exc_info=fault)
        self._consuming.stop_taking()
        if not is_cancelled:
            self._client._runtime.spawn(self._stop, "delayq-stop")
        self._ended()

    async def _work(self, delivery: Leased) -> None:
        """Handles and settles one message."""
        before = _handling.set(self)
        try:
            returned, fault = await self._client._runtime.handled(self._handlers[delivery.topic], delivery)
        finally:
            _handling.reset(before)
        item, fault = settling_item(delivery, None if delivery.is_settled else returned, fault)
        if fault is not None:
            _log_failure(delivery, fault)
        if delivery.is_settled:
            return
        try:
            outcome = await delivery._settle(item)
        except Exception as why:
            log.warning("%s was not settled, and returns when its lease expires: %s", delivery.id, why)
        else:
            if outcome.word in (Word.EXPIRED, Word.FAILED):
                log.warning("%s was handled after its lease expired, and may be delivered again: %s", delivery.id, outcome)


def _log_failure(delivery: Leased, fault: BaseException) -> None:
    what, of = f"{delivery.id} of {delivery.topic}", f" of {delivery.max_attempts}" * bool(delivery.max_attempts)
    if delivery.is_settled:
        log.warning("%s failed after it was settled", what, exc_info=fault)
    elif isinstance(fault, Bury):
        log.warning("%s is buried by its handler: %s", what, fault, exc_info=fault if fault.__cause__ else None)
    elif 0 < delivery.max_attempts <= delivery.attempt:
        log.error("%s failed at its last attempt, %d%s: buried", what, delivery.attempt, of, exc_info=fault)
    else:
        log.warning("%s failed at attempt %d%s; retrying", what, delivery.attempt, of, exc_info=fault)


class Worker:
    """Handles messages in threads until stopped. An exception of a handler fails one attempt of the message.

        worker = Worker(client, {"orders": cancel_if_unpaid}, concurrency=10)
        worker.run()

    The order of `handlers` is the priority of the topics. Leases (None: the topic's) are extended while handlers run. The
    worker continues across outages of Redis. With `pump`, it also pumps due messages, so that no timer is needed: workers that
    pump share the shards, and yield to timers.
    """

    def __init__(
        self, client: Client, handlers: Mapping[str, Callable[[Delivery], object]], *,
        concurrency: int = DEFAULT_CONCURRENCY, lease: timedelta | None = None, grace: timedelta = GRACE, pump: bool = False,
    ) -> None:
        for topic, handler in handlers.items() if isinstance(handlers, Mapping) else ():
            if inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(getattr(handler, "__call__", None)):
                raise InvalidArgument(f"the handler of {topic} is asynchronous: use AsyncWorker")
        self._ends: SimpleQueue[None] = SimpleQueue()
        ended = partial(self._ends.put, None)
        self._working = _Working(core_of(client, Client), handlers, concurrency, lease, grace, pump, ended)
        self._runs = False

    def run(self) -> None:
        """Works until SIGTERM, SIGINT or `stop`, and releases messages unfinished after `grace` with the attempt kept. A signal
        at least one second after the first ends the process at once. Raises a fault of the deployment."""
        signals = Signals(partial(self._ends.put, None))
        self._runs = True
        signals.catch()
        try:
            self.start()
            while not self._ended_within(TICK_S):
                pass
            drive(self._working.stop())
        finally:
            signals.release()
        self._raise_fault()

    def _ended_within(self, timeout_s: float) -> bool:
        with suppress(Empty):
            self._ends.get(timeout=timeout_s)
            return True
        return False

    def start(self) -> None:
        """Starts working in separate threads. Raises a fault of the deployment."""
        drive(self._working.start())

    def stop(self) -> None:
        """Ends `run`, or stops the threads of `start`. Raises the error that ended the worker."""
        self._ends.put(None)
        if not self._runs:
            drive(self._working.stop())
            self._raise_fault()

    def _raise_fault(self) -> None:
        if self._working.fault is not None:
            raise self._working.fault


class AsyncWorker:
    """Handles messages in tasks of the event loop until stopped.

        worker = AsyncWorker(client, {"orders": cancel_if_unpaid}, concurrency=100)
        await worker.run()

    Otherwise as `Worker`. Handlers unfinished after `grace` are cancelled.
    """

    def __init__(
        self, client: AsyncClient, handlers: Mapping[str, Callable[[AsyncDelivery], Awaitable[object]]], *,
        concurrency: int = 100, lease: timedelta | None = None, grace: timedelta = GRACE, pump: bool = False,
    ) -> None:
        self._end = asyncio.Event()
        core = core_of(client, AsyncClient)
        self._working = _Working(core, handlers, concurrency, lease, grace, pump, self._end.set)
        self._runs = False

    async def run(self) -> None:
        """Works until SIGTERM, SIGINT or `stop`, and releases messages unfinished after `grace` with the attempt kept. A signal
        at least one second after the first ends the process at once. Raises a fault of the deployment."""
        self._runs, signals = True, Signals(self._end.set)
        signals.catch_in_loop()
        try:
            await self.start()
            await self._end.wait()
        finally:
            try:
                await self._working.stop()
            finally:
                signals.release()
        self._raise_fault()

    async def start(self) -> None:
        """Starts working in separate tasks. Raises a fault of the deployment."""
        await self._working.start()

    async def stop(self) -> None:
        """Ends `run`, or stops the tasks of `start`. Raises the error that ended the worker."""
        self._end.set()
        if not self._runs:
            await self._working.stop()
            self._raise_fault()

    def _raise_fault(self) -> None:
        if self._working.fault is not None:
            raise self._working.fault
