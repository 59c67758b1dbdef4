"""The servers of a deployment, as the given redis-py client knows them: one Redis, a Sentinel master, or a cluster."""

import time
from contextlib import suppress
from typing import Any

from redis.exceptions import ConnectionError as LostConnection
from redis.exceptions import MovedError, RedisClusterException, RedisError

from .checks import shown
from .election import Election
from .errors import InvalidArgument
from .marks import Marks
from .runtime import Runtime, settled

#: Pause between questions to Sentinels, apart from new connections: a former master that is cut off from Sentinels, but not
#: from clients, accepts writes that are lost.
ASK_S = 1.0
#: Maximum wait of a call for the answers of Sentinels.
WAIT_S = 0.05


def place_of(redis: Any, runtime: Runtime, marks: Marks) -> "Place":
    """Returns the place of a redis-py client; the marks recognise its deployment."""
    if hasattr(redis, "nodes_manager"):
        return Cluster(redis)
    pool = getattr(redis, "connection_pool", None)
    if pool is None:
        raise InvalidArgument(f"redis must be a client of redis-py, such as connect() gives, not {shown(redis)}")
    return Sentinels(redis, runtime, marks) if hasattr(pool, "sentinel_manager") and pool.is_master else Place(redis)


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
    """The master elected by Sentinels. Each connection takes this place for its pool of redis-py, and so asks it for the
    master."""

    is_master, check_connection = True, False

    def __init__(self, redis: Any, runtime: Runtime, marks: Marks) -> None:
        super().__init__(redis)
        self._election, self._marks = Election(redis.connection_pool, runtime), marks
        self.service_name = self._election.service
        self.get_master_address = runtime.called(self._election.elect)
        self._greeted = runtime.called(self._greet)
        self._due_s, self._term = 0.0, 0

    def settings(self, server: str) -> tuple[Any, dict[str, Any]]:
        made_by, settings = super().settings(server)
        return made_by, settings | {"connection_pool": self, "redis_connect_func": self._greeted}

    async def is_replaced(self) -> bool:
        now_s = time.monotonic()
        if now_s >= self._due_s:
            self._due_s = now_s + ASK_S
            await self._election.ask(WAIT_S)
        former, self._term = self._term, self._election.term
        return former != self._term

    async def close(self) -> None:
        await self._election.close(WAIT_S)

    async def _greet(self, connection: Any) -> None:
        """Checks, before any write, that a new connection leads to a master of the same deployment."""
        begin = self._redis.connection_pool.connection_kwargs.get("redis_connect_func") or type(connection).on_connect
        await settled(begin(connection))
        questions = [("ROLE",), *self._marks.questions]
        await settled(connection.send_packed_command(connection.pack_commands(questions), check_health=False))
        role, *found = [await settled(connection.read_response(disable_decoding=True)) for _ in questions]
        at = f"{connection.host}:{connection.port}"
        fault = self._marks.fault(at, found) if role[0] == b"master" else "it is a replica"
        if fault:
            raise LostConnection(f"cannot reach Redis at {at}, the master of {self.service_name}: the sentinels name this Redis, but {fault}")


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
