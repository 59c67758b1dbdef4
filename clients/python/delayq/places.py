"""The servers of a deployment, as the given redis-py client knows them: one Redis, a Sentinel master, or a cluster."""

import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from redis.exceptions import ConnectionError as LostConnection
from redis.exceptions import MovedError, RedisClusterException, RedisError

from .checks import shown
from .errors import InvalidArgument
from .runtime import Runtime, Task, settled

#: Pause between questions to Sentinels, apart from new connections: a former master that is cut off from Sentinels, but not
#: from clients, accepts writes that are lost.
ASK_S = 1.0
#: Maximum wait of a call for the answer of a Sentinel.
WAIT_S = 0.05


def place_of(redis: Any, runtime: Runtime) -> "Place":
    """Returns the place of a redis-py client."""
    if hasattr(redis, "nodes_manager"):
        return Cluster(redis)
    pool = getattr(redis, "connection_pool", None)
    if pool is None:
        raise InvalidArgument(f"redis must be a client of redis-py, such as connect() gives, not {shown(redis)}")
    return Sentinels(redis, runtime) if hasattr(pool, "sentinel_manager") and pool.is_master else Place(redis)


class Place:
    """One Redis, at one address."""

    #: Several independent Redises share the deployment.
    is_several = False

    def __init__(self, redis: Any) -> None:
        self._redis = redis

    async def server(self, key: str) -> str:
        """Returns the name of the server of a key."""
        return ""

    def settings(self, server: str) -> tuple[Any, dict[str, Any]]:
        """Returns the class of connections to a server, and the settings."""
        pool = self._redis.connection_pool
        return pool.connection_class, pool.connection_kwargs

    def node(self, shard: int) -> str:
        """Returns the node addressed by calls to a shard; empty unless several Redises share the deployment, or if unknown."""
        return ""

    def move(self, shard: int, node: str) -> bool:
        """Records the new node of a shard; false if the node or shard is unknown."""
        return False

    def first_shards(self) -> list[int]:
        """One shard per Redis."""
        return [0]

    async def doubt(self) -> None:
        """Updates the map of servers, after a server did not answer or serve."""

    def note_moved(self, refusal: MovedError) -> None:
        """Records the new server of a slot."""

    async def is_replaced(self) -> bool:
        """Reports whether another server has become the master since the last call."""
        return False

    async def close(self) -> None:
        """Stops asking."""


class Sentinels(Place):
    """The master named by Sentinels. redis-py asks the Sentinels for each new connection."""

    def __init__(self, redis: Any, runtime: Runtime) -> None:
        super().__init__(redis)
        self._pool, self._runtime, self._due_s = redis.connection_pool, runtime, 0.0
        self._master: tuple[str, int] | None = None
        self._is_replaced = False
        self._question: Task | None = None
        manager = self._pool.sentinel_manager
        manager.sentinels = _InTurn(manager.sentinels)

    async def is_replaced(self) -> bool:
        # The question runs in the background, so that silent Sentinels delay calls only briefly.
        now_s = time.monotonic()
        if now_s >= self._due_s:
            self._due_s = now_s + ASK_S
            if self._question is None or await self._question.join(0):
                with suppress(RuntimeError):  # no thread begins while the interpreter ends
                    self._question = self._runtime.spawn(self._ask, "delayq-sentinels")
                    await self._question.join(WAIT_S)
        is_replaced, self._is_replaced = self._is_replaced, False
        return is_replaced

    async def close(self) -> None:
        if self._question:
            self._question.cancel()
            await self._question.join(WAIT_S)

    async def _ask(self) -> None:
        if named := await self._named():  # without Sentinels, the connection is used on
            self._is_replaced |= self._master not in (None, named)
            self._master = named

    async def _named(self) -> tuple[str, int] | None:
        """Returns the master that a Sentinel names, even if considered down: no other server has the data."""
        manager = self._pool.sentinel_manager
        for sentinel in manager.sentinels:
            with suppress(RedisError, OSError):
                masters = await settled(sentinel.sentinel_masters())
                if state := masters.get(self._pool.service_name):
                    manager.sentinels[0] = sentinel
                    return state["ip"], state["port"]
        return None


class _InTurn(list[Any]):
    """Sentinels in the order of asking: the last one that answered is first.

    redis-py swaps two Sentinels by index. With two questions at once, a silent Sentinel would be asked twice, or a Sentinel
    lost for good.
    """

    def __iter__(self) -> Iterator[Any]:
        return iter(self[:])

    def __setitem__(self, place: Any, one: Any) -> None:
        if place == 0:  # the other half of the swap is done with it
            super().__setitem__(slice(None), [one, *(other for other in self if other is not one)])


class Cluster(Place):
    """The masters of a cluster: the map of redis-py, updated by redirections."""

    def __init__(self, redis: Any) -> None:
        super().__init__(redis)
        self._moved: dict[int, str] = {}

    async def server(self, key: str) -> str:
        try:
            if hasattr(self._redis, "initialize"):
                await self._redis.initialize()
            return self._moved.get(self._redis.keyslot(key)) or str(self._redis.get_node_from_key(key).name)
        except (RedisClusterException, AttributeError) as fault:
            raise LostConnection(f"no server of the cluster has the slot of {key}: {fault}") from None

    def settings(self, server: str) -> tuple[Any, dict[str, Any]]:
        made_by = self._redis.get_node(node_name=server) or self._redis.get_nodes()[0]
        if not hasattr(made_by, "connection_kwargs"):
            made_by = self._redis.get_redis_connection(made_by).connection_pool
        host, _, port = server.rpartition(":")
        return made_by.connection_class, made_by.connection_kwargs | {"host": host, "port": int(port)}

    async def doubt(self) -> None:
        self._moved = {}
        with suppress(RedisError, RedisClusterException, OSError):
            await settled(self._redis.nodes_manager.initialize())

    def note_moved(self, refusal: MovedError) -> None:
        host, port = self._redis.nodes_manager.remap_host_port(refusal.host, refusal.port)
        self._moved = self._moved | {refusal.slot_id: f"{host}:{port}"}
