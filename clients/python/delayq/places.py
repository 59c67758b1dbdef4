"""Where the servers of a deployment are, as the given client of redis-py knows: one, a Sentinel's master, or a cluster."""

import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from redis.exceptions import ConnectionError as LostConnection
from redis.exceptions import MovedError, RedisClusterException, RedisError

from .checks import shown
from .errors import InvalidArgument
from .runtime import Runtime, Task, settled

#: Between two questions to Sentinels, besides those of new connections: a former master that is cut off from them, and not
#: from its clients, takes writes that are lost.
ASK_S = 1.0
#: How long a call waits for what they answer.
WAIT_S = 0.05


def place_of(redis: Any, runtime: Runtime) -> "Place":
    """Where a client of redis-py leads to."""
    if hasattr(redis, "nodes_manager"):
        return Cluster(redis)
    pool = getattr(redis, "connection_pool", None)
    if pool is None:
        raise InvalidArgument(f"redis must be a client of redis-py, such as connect() gives, not {shown(redis)}")
    return Sentinels(redis, runtime) if hasattr(pool, "sentinel_manager") and pool.is_master else Place(redis)


class Place:
    """One Redis, at one address."""

    #: Whether several Redises keep the deployment that know nothing of each other.
    is_several = False

    def __init__(self, redis: Any) -> None:
        self._redis = redis

    async def server(self, key: str) -> str:
        """The name of the server that has a key."""
        return ""

    def settings(self, server: str) -> tuple[Any, dict[str, Any]]:
        """The class of connections to a server, and what they are made with."""
        pool = self._redis.connection_pool
        return pool.connection_class, pool.connection_kwargs

    def node(self, shard: int) -> str:
        """The name that calls to a shard say behind the layout; empty unless several Redises keep the deployment, or where
        the shard has none of them."""
        return ""

    def move(self, shard: int, node: str) -> bool:
        """Notes that a shard has moved to another node; false where that is not known."""
        return False

    def first_shards(self) -> list[int]:
        """A shard of each of several Redises."""
        return [0]

    async def doubt(self) -> None:
        """A server does not answer, or does not serve: asks again which there are."""

    def note_moved(self, refusal: MovedError) -> None:
        """A server said which one has a slot now."""

    async def is_replaced(self) -> bool:
        """Whether another server than at the last call has everything now."""
        return False

    async def close(self) -> None:
        """Asks nothing any more."""


class Sentinels(Place):
    """The master that Sentinels name. redis-py asks them for each new connection."""

    def __init__(self, redis: Any, runtime: Runtime) -> None:
        super().__init__(redis)
        self._pool, self._runtime, self._due_s = redis.connection_pool, runtime, 0.0
        self._master: tuple[str, int] | None = None
        self._is_replaced = False
        self._question: Task | None = None
        manager = self._pool.sentinel_manager
        manager.sentinels = _InTurn(manager.sentinels)

    async def is_replaced(self) -> bool:
        # The question goes on beside the calls: silent Sentinels take them little time.
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
        """The master that a Sentinel names, even one that it takes for dead: no other one keeps what it is given."""
        manager = self._pool.sentinel_manager
        for sentinel in manager.sentinels:
            with suppress(RedisError, OSError):
                masters = await settled(sentinel.sentinel_masters())
                if state := masters.get(self._pool.service_name):
                    manager.sentinels[0] = sentinel
                    return state["ip"], state["port"]
        return None


class _InTurn(list[Any]):
    """Sentinels in the order in which they are asked: the one that answered last is the first.

    redis-py swaps the two by their places when the question began. Of two questions at once, one would ask a silent one
    twice, or lose a Sentinel for good.
    """

    def __iter__(self) -> Iterator[Any]:
        return iter(self[:])

    def __setitem__(self, place: Any, one: Any) -> None:
        if place == 0:  # the other half of the swap is done with it
            super().__setitem__(slice(None), [one, *(other for other in self if other is not one)])


class Cluster(Place):
    """The masters of a cluster: the map of redis-py, and what servers have said since it was made."""

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
