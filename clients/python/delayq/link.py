"""The link to Redis: one connection to each server, and one per durability for calls that wait, with the settings of the given
redis-py client.

A connection has a deadline for each answer, and is replaced after an error; when its server turns out to be a replica, or
Sentinels name another master; and when a listener of the same server is silent and the connection has received nothing since.

Only calls that a cluster node refused with MOVED are resent. Calls of a moving slot are refused by both nodes (ASK, TRYAGAIN),
because each script declares a key that never exists.
"""

import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, NamedTuple

from redis.exceptions import ClusterDownError, MovedError, NoScriptError, ReadOnlyError, RedisError, ResponseError
from redis.exceptions import ConnectionError as LostConnection
from redis.exceptions import TimeoutError as DeadlinePassed

from .durability import Confirming, Waits
from .errors import ClientClosed
from .marks import Marks
from .nodes import Nodes
from .places import place_of
from .protocol import MAX_BYTES_A_CALL
from .runtime import Runtime, settled

#: Deadline of an answer without a `socket_timeout`.
DEADLINE_S = 5.0
#: Maximum time for a PING.
PATIENCE_S = 1.0
#: Bytes sent before answers are read; only a single command may exceed the limit.
#: Minimum age of a connection before an answer may close the connection.
SHORTEST_LIFE_S = 0.2
#: Maximum attempts of a command; a slot does not move more often during one call.
TRIPS = 5

#: Errors that leave a call without an answer.
_LOST = LostConnection, DeadlinePassed, OSError


class Command(NamedTuple):
    """A command, and the key that selects the server of a cluster."""

    key: str
    args: tuple[Any, ...]
    #: The script of an EVALSHA, for a server without the script.
    source: str = ""


class Link:
    """All connections of a client except listeners."""

    def __init__(self, redis: Any, namespace: str, runtime: Runtime, confirm_ms: int | None = None) -> None:
        self._runtime, self._confirm_ms = runtime, confirm_ms
        is_several = isinstance(redis, (list, tuple))
        self.place = Nodes(redis, namespace, runtime) if is_several else place_of(redis, runtime, Marks(namespace, [0]))
        #: By server and durability: WAIT blocks a connection.
        self._lines: dict[tuple[str, Waits], _Line] = {}
        self._is_closed = False
        #: Called when a server is no longer the master.
        self.moved: Callable[[], Awaitable[None]] | None = None

    async def send(self, commands: Sequence[Command], waits: Waits = "") -> list[Any]:
        """Sends commands in one pipeline per server. Returns a reply per command, in bytes, or the error, after the required
        confirmations."""
        self._runtime.enter()
        if self._is_closed:
            raise ClientClosed("the client is closed: make another one")
        await self._leave_former()
        replies: list[Any] = [None] * len(commands)
        left: Sequence[int] = range(len(commands))
        for _ in range(TRIPS):
            for server, places in (await self._parted(commands, left, replies)).items():
                answers = await self._exchange(server, [commands[i] for i in places], waits)
                for i, answer in zip(places, answers, strict=True):
                    replies[i] = answer
            left = [i for i in left if isinstance(replies[i], MovedError)]
            for i in left:
                self.place.note_moved(replies[i])
            if not left:
                break
        return replies

    def connection(self, server: str) -> Any:
        """Returns a new connection to a server, not yet open."""
        made_by, settings = self.place.settings(server)
        # Settings that connect redis-py's pools with the server; RESP2 connections do not use them.
        own = {name: value for name, value in settings.items() if not name.startswith(("maint_", "orig_"))}
        own |= {
            "protocol": 2, "encoding": "utf-8", "decode_responses": False, "health_check_interval": 0,
            "retry": self._runtime.no_retry, "socket_timeout": settings.get("socket_timeout") or DEADLINE_S,
        }
        return made_by(**own)

    def patience_s(self, server: str) -> float:
        """Maximum time for a PING to a server."""
        return min(PATIENCE_S, self._deadline_s(server) / 2)

    async def doubt(self, server: str, since_s: float) -> None:
        """Drops connections to a server that have received nothing since then; calls that have waited since then are lost."""
        for (of, _), line in list(self._lines.items()):
            if of == server:
                await line.doubt(since_s)

    async def close(self) -> None:
        self._is_closed = True
        await self.place.close()
        lines, self._lines = self._lines, {}
        for line in lines.values():
            await line.close()

    async def _parted(
        self, commands: Sequence[Command], which: Sequence[int], replies: list[Any]
    ) -> dict[str, list[int]]:
        """Groups commands by server. A command without a server gets the error as the reply."""
        parts: dict[str, list[int]] = {}
        for i in which:
            try:
                parts.setdefault(await self.place.server(commands[i].key), []).append(i)
            except _LOST as fault:
                replies[i] = fault
        return parts

    async def _exchange(self, server: str, commands: Sequence[Command], waits: Waits) -> list[Any]:
        """Returns the replies of one server. After a NOSCRIPT, the script is loaded and the command repeated."""
        answers = await self._pipeline(server, commands, [], waits)
        for _ in range(TRIPS):
            unknown = [i for i, answer in enumerate(answers) if isinstance(answer, NoScriptError)]
            if not unknown:
                break
            sources = dict.fromkeys(commands[i].source for i in unknown)
            again = await self._pipeline(server, [commands[i] for i in unknown], [*sources], waits)
            for i, answer in zip(unknown, again, strict=True):
                answers[i] = answer
        return answers

    async def _pipeline(
        self, server: str, commands: Sequence[Command], sources: Sequence[str], waits: Waits
    ) -> list[Any]:
        """Returns the replies to commands, sent after the scripts to load."""
        confirming = Confirming(waits, self._confirm_within_ms(server)) if waits else None
        behind = confirming.commands() if confirming else []
        loads = [("SCRIPT", "LOAD", source) for source in sources]
        answers = await self._line(server, waits).exchange([*loads, *(command.args for command in commands), *behind])
        if isinstance(answers[-1], (*_LOST, ClusterDownError)):
            await self.place.doubt()
        if any(isinstance(answer, ReadOnlyError) for answer in answers) and self.moved:
            await self.moved()
        loaded, answers = answers[: len(loads)], answers[len(loads) :]
        if fault := next((answer for answer in loaded if isinstance(answer, Exception)), None):
            answers = [fault if isinstance(answer, NoScriptError) else answer for answer in answers]
        return confirming.confirmed(answers) if confirming else answers

    def _confirm_within_ms(self, server: str) -> int:
        """At most half of the deadline of an answer."""
        half_ms = int(self._deadline_s(server) * 500)
        return half_ms if self._confirm_ms is None else min(self._confirm_ms, half_ms)

    def _deadline_s(self, server: str) -> float:
        return float(self.place.settings(server)[1].get("socket_timeout") or DEADLINE_S)

    async def _leave_former(self) -> None:
        """Stops writing to a former master."""
        if await self.place.is_replaced():
            for line in list(self._lines.values()):
                line.is_over = True
            if self.moved:
                await self.moved()

    def _line(self, server: str, waits: Waits) -> "_Line":
        kind = server, waits
        if kind not in self._lines:
            self._lines.setdefault(kind, _Line(lambda: self.connection(server), self._runtime))
        return self._lines[kind]


class _Line:
    """One connection, used by one pipeline at a time."""

    def __init__(self, make: Callable[[], Any], runtime: Runtime) -> None:
        self._make, self._runtime, self._turn = make, runtime, runtime.lock()
        self._connection: Any = None
        self._since_s = self._answered_s = 0.0
        #: Begin of the call in flight.
        self._asked_s: float | None = None
        #: The connection is to be replaced before the next use.
        self.is_over = False

    async def exchange(self, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Returns the reply to each command, or the error; replies before a fault are kept."""
        replies: list[Any] = []
        async with self._turn:
            self._asked_s = time.monotonic()
            try:
                connection = await self._open()
                for some in _portions(commands):
                    packed = connection.pack_commands(some)
                    await settled(connection.send_packed_command(packed, check_health=False))
                    for _ in some:
                        replies.append(await self._reply(connection))
            except (RedisError, OSError) as fault:
                await self.close()
                replies += [fault] * (len(commands) - len(replies))
            except BaseException:
                await self.close()
                raise
            finally:
                self._asked_s = None
            lived_s = time.monotonic() - self._since_s
            if lived_s >= SHORTEST_LIFE_S and any(isinstance(reply, ReadOnlyError) for reply in replies):
                await self.close()
        return replies

    async def doubt(self, since_s: float) -> None:
        """Replaces the connection, unless it has received something since then. A call that has only begun is waited for."""
        connection, asked_s = self._connection, self._asked_s
        if connection is not None and self._answered_s < since_s:
            self.is_over = True
            if asked_s is not None and asked_s < since_s:
                await self._runtime.cut(connection)

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await settled(connection.disconnect())

    async def _open(self) -> Any:
        if self._connection is not None and (self.is_over or await self._is_stale()):
            await self.close()
        self.is_over = False
        if self._connection is None:
            self._since_s = self._answered_s = time.monotonic()
            self._connection = self._make()
            await settled(self._connection.connect())
        return self._connection

    async def _is_stale(self) -> bool:
        try:
            return await self._runtime.is_stale(self._connection)
        except (RedisError, OSError):
            return True

    async def _reply(self, connection: Any) -> Any:
        try:
            reply = await settled(connection.read_response(disable_decoding=True))
        except ResponseError as refusal:
            reply = refusal
        self._answered_s = time.monotonic()
        return reply


def _portions(commands: Sequence[tuple[Any, ...]]) -> Iterator[Sequence[tuple[Any, ...]]]:
    """Splits commands into portions that are sent at once."""
    begin = size = 0
    for n, command in enumerate(commands):
        own = sum(len(arg) for arg in command if isinstance(arg, bytes))
        if n > begin and size + own > MAX_BYTES_A_CALL:
            yield commands[begin:n]
            begin, size = n, 0
        size += own
    yield commands[begin:]
