"""Drives the coroutines of both clients, by blocking threads or by an event loop.

A coroutine that a thread drives never suspends. All differences between the two clients are in this file.
"""

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, suppress
from functools import wraps
from inspect import isasyncgen, isawaitable, isgenerator
from typing import Any, AsyncIterator, Concatenate, Iterator, ParamSpec, Protocol, TypeVar

from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as LostConnection
from redis.retry import Retry

from .errors import OtherLoop

P = ParamSpec("P")
R = TypeVar("R")
Work = Callable[[], Coroutine[Any, Any, None]]
Lock = AbstractAsyncContextManager[Any]
#: What a handler returned, or raised.
Handled = tuple[object, BaseException | None]


class Bell(Protocol):
    """Wakes one waiter once; a ring before the wait counts."""

    def ring(self) -> None: ...

    async def wait(self, timeout_s: float | None) -> None: ...


class Task(Protocol):
    """Spawned work."""

    async def join(self, timeout_s: float | None) -> bool:
        """Waits for the end, and returns whether the work has ended."""

    def cancel(self) -> None:
        """Cancels a task; a thread ends by itself."""


class Runtime(Protocol):
    #: Retries of redis-py are off: a repeated put must be marked as a repeat.
    no_retry: Any
    #: Retries for idempotent questions: the use of an idle connection may reveal that the server has closed it.
    retry_lost: Any

    def enter(self) -> None:
        """Raises if the caller may not use the client."""

    def bell(self) -> Bell: ...

    def lock(self) -> Lock: ...

    def spawn(self, work: Work, name: str) -> Task: ...

    def called(self, verb: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, Any]:
        """The verb as redis-py calls it: it blocks, or is awaited."""

    async def shielded(
        self, work: Coroutine[Any, Any, R], undo: Callable[[R], Coroutine[Any, Any, None]] | None = None
    ) -> R:
        """Completes the work even if the caller is cancelled, and then undoes the result."""

    async def handled(self, handler: Callable[[Any], Any], delivery: Any) -> Handled:
        """Calls a handler, and returns its result, and the exception, if any."""

    async def is_stale(self, connection: Any) -> bool:
        """Reports whether the peer has closed an idle connection."""

    async def pushed(self, connection: Any, timeout_s: float) -> Any:
        """Returns the next push of Redis; None after the timeout."""

    async def cut(self, connection: Any) -> None:
        """Fails the call that waits on a connection."""


async def settled(answer: Any) -> Any:
    """Returns the answer of redis-py: a value of a blocking connection, or an awaitable."""
    return await answer if isawaitable(answer) else answer


def drive(work: Coroutine[Any, Any, R]) -> R:
    """Runs a coroutine that never suspends."""
    try:
        work.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    work.close()
    raise TypeError("the blocking client needs a blocking connection")


def blocking(verb: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]) -> Callable[Concatenate[Any, P], R]:
    """The same verb, driven by the calling thread."""

    @wraps(verb)
    def method(self: Any, /, *args: P.args, **options: P.kwargs) -> R:
        return drive(verb(self._core, *args, **options))

    return method


def blocking_iterator(
    verb: Callable[Concatenate[Any, P], AsyncIterator[R]],
) -> Callable[Concatenate[Any, P], Iterator[R]]:
    """The same iterator, driven by the calling thread."""

    @wraps(verb)
    def method(self: Any, /, *args: P.args, **options: P.kwargs) -> Iterator[R]:
        return _driven(verb(self._core, *args, **options))

    return method


def _driven(items: AsyncIterator[R]) -> Iterator[R]:
    async def next_one() -> R:
        return await items.__anext__()

    with suppress(StopAsyncIteration):
        while True:
            yield drive(next_one())


class _ThreadBell:
    """A lock that each ring opens, and each wait closes again: much cheaper than an Event."""

    def __init__(self) -> None:
        self._silent = threading.Lock()
        self._silent.acquire()

    def ring(self) -> None:
        with suppress(RuntimeError):  # rung before
            self._silent.release()

    async def wait(self, timeout_s: float | None) -> None:
        self._silent.acquire(timeout=-1 if timeout_s is None else max(timeout_s, 0))


class _ThreadLock(Lock):
    def __init__(self) -> None:
        self._lock = threading.Lock()

    async def __aenter__(self) -> None:
        self._lock.acquire()

    async def __aexit__(self, *fault: object) -> None:
        self._lock.release()


class _ThreadTask:
    def __init__(self, work: Work, name: str) -> None:
        self._thread = threading.Thread(target=lambda: drive(work()), name=name, daemon=True)
        self._thread.start()

    async def join(self, timeout_s: float | None) -> bool:
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def cancel(self) -> None:
        pass


class Threads:
    """The calling thread drives each coroutine."""

    no_retry = Retry(NoBackoff(), 0)
    retry_lost = Retry(NoBackoff(), 1, (LostConnection,))

    def enter(self) -> None:
        pass

    def bell(self) -> Bell:
        return _ThreadBell()

    def lock(self) -> Lock:
        return _ThreadLock()

    def spawn(self, work: Work, name: str) -> Task:
        return _ThreadTask(work, name)

    def called(self, verb: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, Any]:
        return lambda *args, **options: drive(verb(*args, **options))

    async def shielded(self, work: Coroutine[Any, Any, R], undo: object = None) -> R:
        return await work

    async def handled(self, handler: Callable[[Any], Any], delivery: Any) -> Handled:
        try:
            answer = handler(delivery)
            if isawaitable(answer) or isgenerator(answer) or isasyncgen(answer):
                raise TypeError(f"a handler has to do its work, not to return {answer!r}: for asyncio, use AsyncWorker")
        except BaseException as fault:
            return None, fault
        return answer, None

    async def is_stale(self, connection: Any) -> bool:
        return bool(connection.can_read(0))

    async def pushed(self, connection: Any, timeout_s: float) -> Any:
        return connection.read_response(disable_decoding=True) if connection.can_read(timeout_s) else None

    async def cut(self, connection: Any) -> None:
        # Closing the socket under a reading thread would raise other errors.
        if (own := connection._sock) is not None:
            with suppress(OSError):
                own.shutdown(socket.SHUT_RDWR)


class _LoopBell:
    def __init__(self) -> None:
        self._rung = asyncio.Event()

    def ring(self) -> None:
        self._rung.set()

    async def wait(self, timeout_s: float | None) -> None:
        # Before Python 3.12, `asyncio.wait_for` swallows a cancellation that coincides with the ring.
        loop = asyncio.get_running_loop()
        end = None if timeout_s is None else loop.call_later(timeout_s, self._rung.set)
        try:
            await self._rung.wait()
        finally:
            if end is not None:
                end.cancel()
        self._rung.clear()


class _LoopTask:
    def __init__(self, work: Work, name: str) -> None:
        self._task = asyncio.create_task(work(), name=name)

    async def join(self, timeout_s: float | None) -> bool:
        return bool((await asyncio.wait({self._task}, timeout=timeout_s))[0])

    def cancel(self) -> None:
        self._task.cancel()


class Loop:
    """The running event loop drives coroutines."""

    no_retry = AsyncRetry(NoBackoff(), 0)
    retry_lost = AsyncRetry(NoBackoff(), 1, (LostConnection,))

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        #: Keeps tasks without a waiting caller alive, since the event loop holds weak references.
        self._kept: set[asyncio.Task[Any]] = set()

    def enter(self) -> None:
        loop = asyncio.get_running_loop()
        if self._loop not in (None, loop):
            raise OtherLoop("this AsyncClient was first used in another event loop: make one in each asyncio.run")
        self._loop = loop

    def bell(self) -> Bell:
        return _LoopBell()

    def lock(self) -> Lock:
        return asyncio.Lock()

    def spawn(self, work: Work, name: str) -> Task:
        return _LoopTask(work, name)

    def called(self, verb: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, Any]:
        return verb

    async def shielded(
        self, work: Coroutine[Any, Any, R], undo: Callable[[R], Coroutine[Any, Any, None]] | None = None
    ) -> R:
        task = self._keep(work)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if undo is not None and not task.cancelled():
                await asyncio.shield(self._keep(_undone(task, undo)))
            raise

    async def handled(self, handler: Callable[[Any], Any], delivery: Any) -> Handled:
        is_given_up = False

        async def handle() -> Handled:
            try:
                answer = handler(delivery)
                if isgenerator(answer) or isasyncgen(answer):
                    raise TypeError(f"a handler has to do its work, not to return {answer!r}")
                return await settled(answer), None
            except KeyboardInterrupt:  # of the process, not of the message
                raise
            except BaseException as fault:
                if is_given_up:
                    raise
                return None, fault

        # A separate task distinguishes a cancellation by the handler from a cancellation by the worker.
        task = self._keep(handle())
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            is_given_up = True
            task.cancel()
            raise
        return (None, asyncio.CancelledError()) if task.cancelled() else task.result()

    def _keep(self, work: Coroutine[Any, Any, R]) -> "asyncio.Task[R]":
        task = asyncio.create_task(work)
        self._kept.add(task)
        task.add_done_callback(self._kept.discard)
        return task

    async def is_stale(self, connection: Any) -> bool:
        # The name is `can_read` since redis-py 8.
        can_read: Callable[[], Awaitable[bool]] = getattr(connection, "can_read", None) or connection.can_read_destructive
        return await can_read()

    async def pushed(self, connection: Any, timeout_s: float) -> Any:
        return await connection.read_response(disable_decoding=True, timeout=timeout_s)

    async def cut(self, connection: Any) -> None:
        await connection.disconnect(nowait=True)


async def _undone(task: "asyncio.Task[R]", undo: Callable[[R], Coroutine[Any, Any, None]]) -> None:
    """Undoes the result of a task whose caller is gone; a failed task has no result."""
    await asyncio.wait({task})
    if not task.cancelled() and task.exception() is None:
        await undo(task.result())
