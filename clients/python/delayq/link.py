"""The link to Redis: one connection to each server, made by the settings of the redis-py client that was given.

A connection has a deadline for each answer, and is replaced after any error. It is also replaced when its server turns out
to be a replica: behind its address, or by a Sentinel, the present master is found.
"""

import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from redis.client import NEVER_DECODE
from redis.exceptions import AskError, ReadOnlyError, RedisClusterException, RedisError, ResponseError
from redis.exceptions import ConnectionError as LostConnection
from redis.exceptions import TimeoutError as DeadlinePassed

from .runtime import Runtime, settled

#: How long an answer may take, unless the given client has a `socket_timeout`.
DEADLINE_S = 5.0
#: What is sent before its answers are read; only a single command may exceed it.
MAX_BYTES = 4 * 1024 * 1024
#: How long a connection is kept before an answer may end it.
SHORTEST_LIFE_S = 0.2

#: What leaves a call without an answer.
_LOST = LostConnection, DeadlinePassed, OSError


class Command(NamedTuple):
    """A command, and the key that says which server of a cluster it goes to."""

    key: str
    args: tuple[Any, ...]


class Link:
    """All connections of one client but those that listen."""

    def __init__(self, redis: Any, runtime: Runtime) -> None:
        self._redis, self._runtime = redis, runtime
        self._lines: dict[str, _Line] = {}
        #: Called when a server turned out to be a replica.
        self.moved: Callable[[], Awaitable[None]] | None = None

    async def send(self, commands: Sequence[Command]) -> list[Any]:
        """Sends commands in one pipeline a server. Returns a reply each, in bytes, or the error in its place."""
        servers: dict[str, list[int]] = {}
        for i, command in enumerate(commands):
            servers.setdefault(await self.server(command.key), []).append(i)
        replies: list[Any] = [None] * len(commands)
        for server, places in servers.items():
            some = [commands[i] for i in places]
            answers = await self._line(server, some[0].key).exchange([command.args for command in some])
            if any(isinstance(answer, ReadOnlyError) for answer in answers) and self.moved:
                await self.moved()
            if isinstance(answers[-1], _LOST):
                await self._find_servers()
            for i, command, answer in zip(places, some, answers, strict=True):
                replies[i] = await self._redirected(command) if isinstance(answer, AskError) else answer
        return replies

    async def server(self, key: str) -> str:
        """The name of the server that has a key: of a cluster the node, else the only one there is."""
        if not hasattr(self._redis, "get_node_from_key"):
            return ""
        if hasattr(self._redis, "initialize"):
            await self._redis.initialize()
        try:
            return str(self._redis.get_node_from_key(key).name)
        except (RedisClusterException, AttributeError) as fault:
            raise LostConnection(f"no server of the cluster has the slot of {key}: {fault}") from None

    def connection(self, key: str) -> Any:
        """A connection of its own to the server that has a key, not opened yet."""
        made_by, settings = self._settings(key)
        # What keeps redis-py's own pools informed; connections of RESP2 have no use for it.
        own = {name: value for name, value in settings.items() if not name.startswith(("maint_", "orig_"))}
        own |= {
            "protocol": 2, "encoding": "utf-8", "decode_responses": False, "health_check_interval": 0,
            "retry": self._runtime.no_retry, "socket_timeout": settings.get("socket_timeout") or DEADLINE_S,
        }
        return made_by(**own)

    async def close(self) -> None:
        lines, self._lines = self._lines, {}
        for line in lines.values():
            await line.close()

    def _line(self, server: str, key: str) -> "_Line":
        if server not in self._lines:
            self._lines.setdefault(server, _Line(lambda: self.connection(key), self._runtime))
        return self._lines[server]

    def _settings(self, key: str) -> tuple[Any, dict[str, Any]]:
        made_by = self._redis
        if hasattr(made_by, "get_node_from_key"):
            made_by = made_by.get_node_from_key(key)
            if not hasattr(made_by, "connection_kwargs"):
                made_by = self._redis.get_redis_connection(made_by)
        made_by = getattr(made_by, "connection_pool", made_by)
        return made_by.connection_class, made_by.connection_kwargs

    async def _find_servers(self) -> None:
        """Has the cluster's client find its slots again: a server that is gone redirects no call."""
        if hasattr(self._redis, "get_node_from_key"):
            with suppress(RedisError, RedisClusterException, OSError):
                await settled(self._redis.nodes_manager.initialize())

    async def _redirected(self, command: Command) -> Any:
        """A slot that is elsewhere, or on its way: the cluster's client follows it, and remembers where it is."""
        try:
            return await settled(self._redis.execute_command(*command.args, **{NEVER_DECODE: []}))
        except (RedisError, OSError) as fault:
            return fault


class _Line:
    """One connection, used by one pipeline at a time."""

    def __init__(self, make: Callable[[], Any], runtime: Runtime) -> None:
        self._make, self._runtime, self._turn = make, runtime, runtime.lock()
        self._connection: Any = None
        self._since_s = 0.0

    async def exchange(self, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        """The reply to each command, or the error in its place: what was answered before a fault is known."""
        replies: list[Any] = []
        async with self._turn:
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
            lived_s = time.monotonic() - self._since_s
            if lived_s >= SHORTEST_LIFE_S and any(isinstance(reply, ReadOnlyError) for reply in replies):
                await self.close()
        return replies

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await settled(connection.disconnect())

    async def _open(self) -> Any:
        if self._connection is not None and await self._is_stale():
            await self.close()
        if self._connection is None:
            self._connection, self._since_s = self._make(), time.monotonic()
            await settled(self._connection.connect())
        return self._connection

    async def _is_stale(self) -> bool:
        try:
            return await self._runtime.is_stale(self._connection)
        except (RedisError, OSError):
            return True

    async def _reply(self, connection: Any) -> Any:
        try:
            return await settled(connection.read_response(disable_decoding=True))
        except ResponseError as refusal:
            return refusal


def _portions(commands: Sequence[tuple[Any, ...]]) -> Iterator[Sequence[tuple[Any, ...]]]:
    """Commands that are sent together."""
    begin = size = 0
    for n, command in enumerate(commands):
        own = sum(len(arg) for arg in command if isinstance(arg, bytes))
        if n > begin and size + own > MAX_BYTES:
            yield commands[begin:n]
            begin, size = n, 0
        size += own
    yield commands[begin:]
