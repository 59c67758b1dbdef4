"""Waits without polling: one connection per server, on which queues report becoming ready.

Reports are lost while the connection is down, so every shard is asked after each connect. A poll of one shard at a time is the
safety net for other losses.

A silent connection is pinged. Without an answer, the listener replaces the connection, and connections for calls to the same
server that have received nothing since.
"""

import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from redis.exceptions import ConnectionError as LostConnection
from redis.exceptions import MovedError, RedisError

from .asking import Asking
from .link import DEADLINE_S, Link
from .protocol import META, READY, WAKE, WORKERS, key_of
from .runtime import Runtime, Task, settled

#: Pause between polls, each of one shard for one list of topics, and between pings of an idle connection. Together less than
#: one command per second.
POLL_S = 2.5
PING_S = 2.0
#: Pause before a reconnect, plus a random part up to the same length, which spreads the clients.
REST_S = 0.3
#: Maximum time a listener waits for a report before other checks, and how long an unused listener stays.
TICK_S = 1.0
LINGER_S = 60.0

log = logging.getLogger("delayq")


#: Takes the number of a shard and the report.
Follower = Callable[[int, bytes], None]


class _Silence(Exception):
    """The PING sent at this time was not answered."""

    def __init__(self, pinged_s: float) -> None:
        super().__init__("Redis does not answer a PING")
        self.pinged_s = pinged_s


class Watch:
    """The state shared by all waiting reserves of a client. Threads may share it."""

    def __init__(self, link: Link, namespace: str, runtime: Runtime) -> None:
        self._link, self._namespace, self._runtime = link, namespace, runtime
        self._mutex = threading.Lock()
        self._shards = 0
        self._asked: dict[tuple[str, ...], Asking] = {}
        #: Called with reports of sooner due times, and of owners that gave a shard back. Replaced as a whole.
        self._followers: tuple[Follower, ...] = ()
        #: The last known servers of the shards, and the listeners.
        self._servers: set[str] = set()
        self._listeners: dict[str, Task] = {}
        #: Listening connections by server.
        self._connections: dict[str, Any] = {}
        #: Incremented when listeners must reconnect: after a growth, a failover, or the close.
        self._era = 0
        self._waited_s = self._polled_s = 0.0
        self._poll = 0
        self.is_closed = False
        link.moved = self.connect_again

    async def asking(self, topics: Sequence[str], shards: int) -> Asking:
        """Returns the shards to ask for these topics, kept up to date by reports."""
        self._waited_s = time.monotonic()
        with self._mutex:
            has_grown = self._grow(shards)
            if tuple(topics) not in self._asked:
                self._forget_unused()
                first = random.randrange(shards)
                self._asked[tuple(topics)] = Asking([*range(first, shards), *range(first)])
            asking = self._asked[tuple(topics)]
            asking.used_s = self._waited_s
        await self._cover(has_grown)
        return asking

    async def follow(self, follower: Follower, shards: int) -> None:
        """Also listens to the due times of all shards. A report of 0 says that reports may be lost."""
        with self._mutex:
            is_new, has_grown = follower not in self._followers, self._grow(shards)
            if is_new:
                self._followers += (follower,)
        await self._cover(is_new or has_grown)

    def unfollow(self, follower: Follower) -> None:
        with self._mutex:
            self._followers = tuple(one for one in self._followers if one != follower)

    def _grow(self, shards: int) -> bool:
        """Reports whether shards were added. Requires the mutex."""
        former, self._shards = self._shards, shards
        for asking in self._asked.values() if 0 < former < shards else ():
            asking.ask(range(former, shards))
        return 0 < former < shards

    async def _cover(self, is_changed: bool) -> None:
        """Listens to every server of the shards, again after a change."""
        if is_changed:
            await self.connect_again()
        if not self._servers or any(server not in self._listeners for server in self._servers):
            await self._start_listeners()

    def _forget_unused(self) -> None:
        """Forgets topics without recent waiting calls. Requires the mutex."""
        for topics, asking in list(self._asked.items()):
            if not asking.is_waited_for and self._waited_s - asking.used_s > LINGER_S:
                del self._asked[topics]

    async def connect_again(self) -> None:
        """Makes all listeners reconnect, to the present master and for all shards."""
        self._era += 1
        for connection in list(self._connections.values()):
            await settled(connection.disconnect())

    def wake(self, topics: Sequence[str]) -> None:
        """Wakes the callers that wait for these topics, to check for a stop."""
        if asking := self._asked.get(tuple(topics)):
            asking.wake_all()

    async def close(self) -> None:
        """Stops listening, and wakes waiting callers."""
        with self._mutex:
            self.is_closed, asked = True, list(self._asked.values())
        for asking in asked:
            asking.wake_all()
        await self.connect_again()
        for listener in list(self._listeners.values()):
            listener.cancel()
            await listener.join(TICK_S + DEADLINE_S)

    async def _start_listeners(self) -> None:
        """Starts a listener for each server of the shards."""
        servers = {await self._server(shard) for shard in range(self._shards)}
        if self._link.place.is_several:
            servers.discard("")  # that of shards without a node
        self._servers = servers
        for server in servers:
            with self._mutex:
                if server not in self._listeners and not self.is_closed:
                    self._listeners[server] = self._runtime.spawn(partial(self._listen_to, server), "delayq-listen")

    async def _listen_to(self, server: str) -> None:
        """Listens to the shards of one server while callers wait."""
        is_refused = False
        while self._stays(server):
            era = self._era
            try:
                await self._start_listeners()  # the shards may have moved to a server that nobody listens to
                shards = await self._shards_at(server)
                if not shards:
                    self._listeners.pop(server, None)
                    return
                await self._listen_on_one(server, shards, era)
                is_refused = False
            except _Silence as silence:
                log.debug("listening was interrupted: %s", silence)
                await self._link.doubt(server, silence.pinged_s)
                await self._link.place.doubt()
                continue
            except (LostConnection, OSError) as fault:
                log.debug("listening was interrupted: %s", fault)
                if era == self._era:
                    await self._link.place.doubt()
            except MovedError as moved:
                self._link.place.note_moved(moved)
            except RedisError as refusal:
                if not is_refused:
                    log.warning("Redis refuses listening; messages are noticed late: %s", refusal)
                is_refused = True
            except Exception:
                if era == self._era:  # else its connection was closed under it
                    log.exception("listening failed; retrying")
            if era == self._era:
                await self._runtime.bell().wait(REST_S * (1 + random.random()))
                self._ask(await self._shards_at(server) if self._link.place.is_several else range(self._shards))

    async def _listen_on_one(self, server: str, shards: Sequence[int], era: int) -> None:
        """Listens on one connection until an error or a change of the server's shards."""
        connection = self._link.connection(server)
        try:
            await settled(connection.connect())
            # A cluster refuses channels of several slots in one command.
            kinds = [READY] + [WAKE] * bool(self._followers)
            commands = [("SSUBSCRIBE", key_of(self._namespace, shard, kind)) for shard in shards for kind in kinds]
            await settled(connection.send_packed_command(connection.pack_commands(commands)))
            for _ in commands:
                await settled(connection.read_response(disable_decoding=True))
            self._ask(shards)
            self._report(shards, b"0")
            self._connections[server] = connection
            counted: set[str] = set()
            received_s = pinged_s = checked_s = time.monotonic()
            while era == self._era and (self._has_waiters() or self._lingers()):
                if 0 in shards and (joined := self._topics() - counted):
                    # Counted there as a worker of these topics; the answers are pushes.
                    channels = [key_of(self._namespace, 0, WORKERS + topic) for topic in sorted(joined)]
                    await settled(connection.send_command("SSUBSCRIBE", *channels, check_health=False))
                    counted |= joined
                is_asked = received_s < pinged_s
                due_s = pinged_s + self._link.patience_s(server) if is_asked else received_s + PING_S
                push = await self._runtime.pushed(connection, min(max(due_s - time.monotonic(), 0.01), TICK_S))
                now_s = time.monotonic()
                if push is not None:
                    received_s = now_s
                    if push[0] == b"sunsubscribe":
                        await self._link.place.doubt()
                        return
                    self._note(push)
                elif is_asked and now_s >= due_s:
                    raise _Silence(pinged_s)
                elif not is_asked and now_s >= due_s:
                    pinged_s = now_s
                    await settled(connection.send_command("PING", check_health=False))
                if now_s - checked_s >= TICK_S:
                    checked_s = now_s
                    if shards != await self._shards_at(server):
                        return
                self._poll_one(now_s)
        finally:
            self._connections.pop(server, None)
            await settled(connection.disconnect())

    def _note(self, push: Sequence[Any]) -> None:
        """Handles a report of a shard, for one topic or all topics."""
        if push[0] == b"smessage":
            shard = int(push[1].partition(b":")[2].partition(b"}")[0])
            if push[1].endswith(f":{WAKE}".encode()):
                self._report([shard], push[2])
            else:
                self._ask([shard], push[2].decode())

    def _report(self, shards: Sequence[int], report: bytes) -> None:
        for follower in self._followers:
            for shard in shards:
                follower(shard, report)

    def _ask(self, shards: Sequence[int], topic: str = "") -> None:
        for topics, asking in list(self._asked.items()):
            if not topic or topic in topics:
                asking.ask(shards)

    def _poll_one(self, now_s: float) -> None:
        """Makes one waiting caller poll one shard, each in turn."""
        waited_for = [asking for asking in list(self._asked.values()) if asking.is_waited_for]
        if waited_for and now_s - self._polled_s >= POLL_S:
            self._polled_s, self._poll = now_s, self._poll + 1
            turn, n = divmod(self._poll, len(waited_for))
            waited_for[n].ask([turn % self._shards])

    def _stays(self, server: str) -> bool:
        """Reports whether a listener continues. The end of a listener invalidates the known state of the shards."""
        with self._mutex:
            if not self.is_closed and (self._has_waiters() or self._lingers()):
                return True
            self._listeners.pop(server, None)
            self._asked.clear()
            return False

    def _topics(self) -> set[str]:
        """Returns the topics that callers wait for."""
        return {topic for topics in list(self._asked) for topic in topics}

    def _has_waiters(self) -> bool:
        return bool(self._followers) or any(asking.is_waited_for for asking in list(self._asked.values()))

    def _lingers(self) -> bool:
        return time.monotonic() - self._waited_s < LINGER_S

    async def _shards_at(self, server: str) -> list[int]:
        return [shard for shard in range(self._shards) if await self._server(shard) == server]

    async def _server(self, shard: int) -> str:
        return await self._link.place.server(key_of(self._namespace, shard, META))
