"""The master that Sentinels elect: the one that a majority of the configured Sentinels names.

A Sentinel that was cut off, or that watches another Redis under the same name, is outvoted, regardless of the epoch of its
configuration. As long as no master is known, the answering Sentinels elect the first one.
"""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from redis.exceptions import ConnectionError as LostConnection
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as DeadlinePassed

from .runtime import Bell, Runtime, Task, settled

#: Maximum wait for the first answer.
ANSWER_S = 1.25
#: Extra time, after the first answer, to wait for the answers of other Sentinels.
PATIENCE_S = 0.25

Address = tuple[str, int]


class Said(NamedTuple):
    """The answer of a Sentinel."""

    master: Address
    epoch: int


class Election:
    """The Sentinels of one master, each asked by at most one task at a time."""

    def __init__(self, pool: Any, runtime: Runtime) -> None:
        self.service, self._runtime, manager = pool.service_name, runtime, pool.sentinel_manager
        self._sentinels = [_Sentinel(redis, self.service) for redis in manager.sentinels]
        self._forced_ip = getattr(manager, "_force_master_ip", None)
        self._bells: list[Bell] = []
        self._master: Address | None = None
        #: Incremented when another Redis becomes the master.
        self.term = 0

    async def elect(self) -> Address:
        """Returns the master, by an answer to a question asked now."""
        await self.ask(ANSWER_S)
        heard = [sentinel.said for sentinel in self._sentinels if isinstance(sentinel.said, Said)]
        if self._master is None:
            self._begin(_named(heard, len(heard)))
        if heard and self._master is not None:
            host, port = self._master
            return self._forced_ip or host, port
        who = "the sentinels do not agree on the" if heard else "no sentinel names the"
        told = "; ".join(map(str, self._sentinels))
        raise LostConnection(f"cannot reach Redis: {who} master of {self.service}: {told}")

    async def ask(self, wait_s: float) -> None:
        """Asks all Sentinels, and waits until further answers would not change the result."""
        bell = self._runtime.bell()
        self._bells.append(bell)
        try:
            for sentinel in self._sentinels:
                await sentinel.ask(self._runtime, self._note)
            ends_s = time.monotonic() + wait_s
            await self._until(self._is_heard, bell, ends_s)
            await self._until(self._is_settled, bell, min(ends_s, time.monotonic() + PATIENCE_S))
        finally:
            self._bells.remove(bell)

    async def close(self, wait_s: float) -> None:
        """Stops asking."""
        for sentinel in self._sentinels:
            await sentinel.close(wait_s)

    def _note(self) -> None:
        """Notes an answer. The term ends when a majority of all Sentinels names another master."""
        self._begin(self._elected())
        for bell in list(self._bells):
            bell.ring()

    def _begin(self, master: Address | None) -> None:
        if master not in (None, self._master):
            self.term += self._master is not None
            self._master = master

    def _elected(self) -> Address | None:
        return _named([one.said for one in self._sentinels if isinstance(one.said, Said)], len(self._sentinels))

    def _is_heard(self) -> bool:
        said = [sentinel.said for sentinel in self._sentinels]
        return None not in said or any(isinstance(one, Said) for one in said)

    def _is_settled(self) -> bool:
        return self._elected() is not None or all(sentinel.said is not None for sentinel in self._sentinels)

    async def _until(self, is_so: Callable[[], bool], bell: Bell, ends_s: float) -> None:
        while not is_so() and (left_s := ends_s - time.monotonic()) > 0:
            await bell.wait(left_s)


class _Sentinel:
    """One Sentinel, and the answer to the last question: what it said, why it did not, or None before that."""

    def __init__(self, redis: Any, service: str) -> None:
        self._redis, self._service = redis, service
        self._task: Task | None = None
        self.said: Said | str | None = None

    def __str__(self) -> str:
        at = self._redis.connection_pool.connection_kwargs
        name = f"sentinel {at['host']}:{at['port']}"
        if isinstance(self.said, Said):
            return f"{name} names {_shown(self.said.master)} by epoch {self.said.epoch}"
        return f"{name}: {self.said or 'no reply'}"

    async def ask(self, runtime: Runtime, note: Callable[[], None]) -> None:
        if self._task is None or await self._task.join(0):
            self.said = None
            with suppress(RuntimeError):  # no thread begins while the interpreter ends
                self._task = runtime.spawn(lambda: self._ask(note), "delayq-sentinel")

    async def close(self, wait_s: float) -> None:
        if self._task:
            self._task.cancel()
            await self._task.join(wait_s)
        await settled(self._redis.connection_pool.disconnect(inuse_connections=False))

    async def _ask(self, note: Callable[[], None]) -> None:
        try:
            self.said = await self._answer()
        except DeadlinePassed:
            self.said = "no reply"
        except (RedisError, OSError) as fault:
            self.said = str(fault)
        note()

    async def _answer(self) -> Said | str:
        # While the Sentinel leads a failover, only the first command names the new master.
        pipe = self._redis.pipeline(transaction=False)
        pipe.sentinel_get_master_addr_by_name(self._service)
        pipe.sentinel_master(self._service)
        master, state = await settled(pipe.execute())
        if not master:
            return f"no master named {self._service}"
        host = master[0].decode() if isinstance(master[0], bytes) else master[0]
        return Said((host, int(master[1])), state["config-epoch"])


def _named(heard: Sequence[Said], of: int) -> Address | None:
    """Returns the master that more than half of `of` Sentinels name."""
    return next((master for master, count in Counter(said.master for said in heard).items() if count > of / 2), None)


def _shown(address: Address) -> str:
    return ":".join(map(str, address))
