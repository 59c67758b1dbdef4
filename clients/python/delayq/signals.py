"""The signals that end a worker: the first one gracefully, a later one at once."""

import asyncio
import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

SIGNALS = signal.SIGTERM, signal.SIGINT
#: Minimum age of the first signal for a second signal to count: supervisors signal a process and its group at once.
APART_S = 1.0

log = logging.getLogger("delayq")


class Signals:
    """Calls `first` at the first signal; a later signal has the original effect."""

    def __init__(self, first: Callable[[], None]) -> None:
        self._first, self._first_s = first, 0.0
        self._before: dict[int, Any] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    def catch(self) -> None:
        """Catches signals, only in the main thread."""
        if threading.current_thread() is threading.main_thread():
            self._before = {one: signal.signal(one, lambda number, _: self._came(number)) for one in SIGNALS}

    def catch_in_loop(self) -> None:
        with suppress(NotImplementedError, RuntimeError):  # not on every system, nor outside the main thread
            for one in SIGNALS:
                asyncio.get_running_loop().add_signal_handler(one, self._came, one)
            self._loop = asyncio.get_running_loop()

    def release(self) -> None:
        """Restores the original handlers."""
        before, self._before = self._before, {}
        for one, handler in before.items():
            signal.signal(one, signal.SIG_DFL if handler is None else handler)
        loop, self._loop = self._loop, None
        for one in SIGNALS if loop else ():
            loop.remove_signal_handler(one)  # type: ignore[union-attr]

    def _came(self, number: int) -> None:
        now_s = time.monotonic()
        if not self._first_s:
            self._first_s = now_s
            self._first()
        elif now_s - self._first_s >= APART_S:
            log.error("another signal: ending at once; messages are delivered again when their leases expire")
            self.release()
            os.kill(os.getpid(), number)
