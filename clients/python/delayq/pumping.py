"""A worker that pumps, so that messages are delivered on time without a timer.

Workers share the shards by the lock of `claim`, and yield to timers. The owner of a shard sleeps until the next due time, or
until the channel `wake` reports a sooner due time.
"""

import logging
import math
import os
import random
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from .calls import Calls
from .errors import ClientClosed
from .items import Arg, Call
from .protocol import META, key_of
from .reserving import Reserving
from .runtime import Task
from .schedule import LOCK_S, MAX_RETRY_S, WATCH_S, Shard

#: Maximum ids of a pipeline of pumps, and minimum share of a shard.
MAX_IDS, MIN_IDS = 150, 8
#: Pause between looks at the servers of the shards, and maximum wait of a stop for each loop.
PLACE_S, STOP_S = 1.0, 0.5

log = logging.getLogger("delayq")


class Pumping:
    """Pumps every shard that no other worker and no timer pumps."""

    def __init__(self, client: Reserving) -> None:
        self._runtime, self._watch = client._runtime, client._watch
        #: Uses separate connections, so that no due message waits behind other answers.
        self._calls = Calls(client.redis, client.namespace, client._runtime)
        self._owner = f"worker/{socket.gethostname()}:{os.getpid()}-{random.getrandbits(32):08x}"
        self._servers: dict[str, _Server] = {}
        self._shards: list[Shard] = []
        self._tasks: list[Task] = []
        self._ended = self._runtime.bell()
        self._is_stopped = False

    def start(self) -> None:
        """Starts one loop for each server of the shards."""
        self._tasks.append(self._runtime.spawn(self._place, "delayq-place"))

    async def stop(self) -> None:
        """Gives every shard back, for other workers to claim at once."""
        self._is_stopped = True
        self._watch.unfollow(self._woken)
        self._ended.ring()
        for server in self._servers.values():
            server.stop()
        for task in self._tasks:
            await task.join(STOP_S)
        for server in self._servers.values():
            await server.give_back()
        await self._calls._link.close()

    def _woken(self, shard: int, report: bytes) -> None:
        for server in list(self._servers.values()):
            server.woken(shard, report)

    async def _place(self) -> None:
        """Has each shard pumped by the loop of its server."""
        place, space = self._calls._link.place, self._calls.namespace
        while not self._is_stopped:
            try:
                shards = await self._calls._learn()
                await self._watch.follow(self._woken, shards)
                self._assign([await place.server(key_of(space, shard, META)) for shard in range(shards)])
            except ClientClosed:
                return
            except Exception as fault:
                log.debug("the shards to pump are not known yet: %s", fault)
            await self._ended.wait(PLACE_S)

    def _assign(self, homes: Sequence[str]) -> None:
        self._shards += map(Shard, range(len(self._shards), len(homes)))
        for name in {*homes} - self._servers.keys():
            if name or not self._calls._link.place.is_several:  # a shard without a node has no server
                self._servers[name] = server = _Server(self._calls, self._owner)
                self._tasks.append(self._runtime.spawn(server.run, "delayq-pump"))
        for name, server in self._servers.items():
            server.keep([shard for shard, home in zip(self._shards, homes, strict=True) if home == name])


class _Server:
    """The shards of one Redis, whose pumps wait for no other Redis."""

    def __init__(self, calls: Calls, owner: str) -> None:
        self._calls, self._owner = calls, owner
        self._bell, self._mutex = calls._runtime.bell(), threading.Lock()
        self._shards: dict[int, Shard] = {}
        #: Marks of the last pumps, which reveal a Redis that came back with older data.
        self._marks: dict[int, str] = {}
        self._is_failing = self._is_stopped = False

    def keep(self, shards: Sequence[Shard]) -> None:
        """Pumps these shards and no others."""
        if (by_number := {shard.number: shard for shard in shards}) != self._shards:
            self._shards = by_number
            self._bell.ring()

    def woken(self, number: int, report: bytes) -> None:
        if shard := self._shards.get(number):
            with self._mutex:
                shard.woken(report, time.monotonic())
            self._bell.ring()

    async def run(self) -> None:
        while not self._is_stopped:
            try:
                await self._bell.wait(await self._turn())
            except ClientClosed:
                return
            except Exception:
                log.exception("pumping failed; retrying")
                await self._bell.wait(MAX_RETRY_S)

    def stop(self) -> None:
        self._is_stopped = True
        self._bell.ring()

    async def give_back(self) -> None:
        owned = [shard for shard in self._shards.values() if shard.epoch is not None]
        await self._ask("claim", owned, lambda _: self._claiming("free"))

    async def _turn(self) -> float:
        """Sends the calls that are due, and returns the time until the next one."""
        now_s, due = time.monotonic(), defaultdict[str, list[Shard]](list)
        for shard in self._shards.values():
            verb, at_s = shard.next(now_s)
            if at_s <= now_s:
                due[verb].append(shard)
        for verb, work in (("claim", self._claim), ("hold", self._hold), ("pump", self._pump)):
            if verb in due:
                await work(due[verb])
        now_s = time.monotonic()
        next_s = min((shard.next(now_s)[1] for shard in self._shards.values()), default=math.inf)
        return min(max(next_s - now_s, 0.0), WATCH_S)

    async def _claim(self, shards: Sequence[Shard]) -> None:
        """Claims shards, or renews the locks."""
        sent_s = time.monotonic()
        for shard, reply in await self._ask("claim", shards, lambda _: self._claiming(int(LOCK_S * 1000))):
            word, epoch, _, _, due, *left = reply
            if word == b"owned":
                shard.lose(time.monotonic(), int(left[0]) / 1000 if left and left[0] else None)
                continue
            if epoch != shard.epoch:
                log.info("pumping shard %d under epoch %d", shard.number, epoch)
            shard.own(epoch, sent_s)
            self.woken(shard.number, due)

    async def _hold(self, shards: Sequence[Shard]) -> None:
        """Keeps due messages delayed while the clock is not trusted, for the next owner too; or ends the hold."""
        words = {True: "on", False: "off"}
        for shard, reply in await self._ask("hold", shards, lambda shard: [shard.epoch, words[shard.clock.is_jumped]]):
            shard.answer(0.0, shard.clock.is_jumped, False, time.monotonic())
            if reply.startswith(b"fenced"):
                shard.lose(time.monotonic())

    async def _pump(self, shards: Sequence[Shard]) -> None:
        limit, sent_s = max(MAX_IDS // len(shards), MIN_IDS), time.monotonic()
        answers = await self._ask("pump", shards, lambda shard: [shard.epoch, limit, shard.clock.latest_ms(sent_s), self._marks.get(shard.number, "")])
        for shard, reply in answers:
            word, *told = reply[0].decode().split()
            due_ms = int(reply[2]) if reply[2] else math.inf
            shard.answer(due_ms, word == "held", word != "more" and due_ms * 1000 <= reply[1], time.monotonic())
            if word == "fenced":
                log.info("another owner pumps shard %d under epoch %s", shard.number, told[0])
                shard.lose(time.monotonic())
            elif told:
                self._marks[shard.number] = told[0]
            if len(told) > 1:
                log.error("shard %d came back with older data: what changed since %s ms is lost", shard.number, told[2])
            if reply[8]:
                log.error("%d due messages of shard %d cannot be moved: a key has the wrong type", reply[8], shard.number)

    async def _ask(self, verb: str, shards: Sequence[Shard], args: Callable[[Shard], list[Arg]]) -> list[tuple[Shard, Any]]:
        """Returns the shards that answered, with their answers."""
        answers: list[tuple[Shard, Any]] = []
        with self._mutex:
            for shard in shards:
                shard.sends(verb)
        sent_s = time.monotonic()
        replies = await self._calls._call_all([Call(verb, shard.number, args(shard)) for shard in shards])
        now_s = time.monotonic()
        for shard, reply in zip(shards, replies, strict=True):
            if isinstance(reply, Exception):
                if not self._is_failing:
                    log.warning("cannot pump; retrying: %s", reply)
                self._is_failing = True
                shard.fail(verb, now_s)
                continue
            if isinstance(reply, list):
                shard.clock.hear(reply[1 if verb == "pump" else 2], sent_s, now_s)
            self._is_failing = False
            answers.append((shard, reply))
        return answers

    def _claiming(self, lock: Arg) -> list[Arg]:
        return [self._owner, lock, self._calls._identity]
