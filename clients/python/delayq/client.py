"""The two clients: the same verbs, awaited or blocking."""

import os
import weakref
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, cast

from redis import Redis
from redis.asyncio import Redis as AsyncRedis
from redis.asyncio.cluster import RedisCluster as AsyncRedisCluster
from redis.cluster import RedisCluster

from .checks import shown, whole
from .delivery import Delivery
from .errors import InvalidArgument
from .group import AsyncGroup, Group
from .nodes import Node
from .producing import Producing
from .protocol import DEFAULT_MAX_PAYLOAD_BYTES, DEFAULT_NAMESPACE, MAX_PAYLOAD_BYTES, MAX_TIMEOUT_MS
from .reserving import Reserving
from .runtime import Loop, Runtime, Threads, blocking, drive
from .times import When, span_ms
from .topic import AsyncTopic, Topic


class _Core(Producing, Reserving):
    """All verbs."""

    def __init__(
        self, redis: Any, namespace: str, max_payload_bytes: int, confirm_timeout: timedelta | None, runtime: Runtime
    ) -> None:
        confirm_ms = None if confirm_timeout is None else span_ms("confirm_timeout", confirm_timeout, 1, MAX_TIMEOUT_MS)
        super().__init__(redis, namespace, runtime, confirm_ms)
        self.max_payload_bytes = whole("max_payload_bytes", max_payload_bytes, 1, MAX_PAYLOAD_BYTES)
        self._is_closed = False

    async def close(self) -> None:
        """Ends waiting calls and closes the client's connections. The given connection stays open."""
        self._runtime.enter()
        self._is_closed = True
        await self._runtime.shielded(self._close())

    async def _close(self) -> None:
        await self._watch.close()
        await self._link.close()


class AsyncClient(_Core):
    """A deployment of delayq for asyncio. Every verb is safe to repeat; the README explains what a repeat does.

    The client connects with the settings of `redis`: a Redis, a Sentinel's `master_for`, a RedisCluster, or a `Node` for each
    of several independent Redises. `confirm_timeout` limits the wait for replicas or disk: at most, and by default, half of the
    time for an answer (`socket_timeout`, or 5 s).
    """

    def __init__(
        self, redis: "AsyncRedis | AsyncRedisCluster | Sequence[Node]", namespace: str = DEFAULT_NAMESPACE, *, max_payload_bytes: int = DEFAULT_MAX_PAYLOAD_BYTES,
        confirm_timeout: timedelta | None = None,
    ) -> None:
        if any(isinstance(one, (Redis, RedisCluster)) for one in _given(redis)):
            raise InvalidArgument("redis blocks: give one of redis.asyncio, or use Client")
        super().__init__(redis, namespace, max_payload_bytes, confirm_timeout, Loop())

    def topic(self, name: str) -> AsyncTopic:
        """Returns a topic: messages, counts, policy and dead letters."""
        return AsyncTopic(self, name)

    def group(self, name: str, *, topic: str | None = None) -> AsyncGroup:
        """Returns a group: its messages of all topics, or of `topic`."""
        return AsyncGroup(self, name, topic)

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *fault: object) -> None:
        await self.close()


class Client:
    """A deployment of delayq with blocking calls, which threads may share. Every verb is safe to repeat; the README explains
    what a repeat does.

    The client connects with the settings of `redis`: a Redis, a Sentinel's `master_for`, a RedisCluster, or a `Node` for each
    of several independent Redises. `confirm_timeout` limits the wait for replicas or disk: at most, and by default, half of the
    time for an answer (`socket_timeout`, or 5 s).
    """

    def __init__(
        self, redis: "Redis | RedisCluster | Sequence[Node]", namespace: str = DEFAULT_NAMESPACE, *, max_payload_bytes: int = DEFAULT_MAX_PAYLOAD_BYTES,
        confirm_timeout: timedelta | None = None,
    ) -> None:
        if any(isinstance(one, (AsyncRedis, AsyncRedisCluster)) for one in _given(redis)):
            raise InvalidArgument("redis is asynchronous: give one that blocks, or use AsyncClient")

        def make() -> _Core:
            core = _Core(redis, namespace, max_payload_bytes, confirm_timeout, Threads())
            core._made_by = Delivery
            return core

        self.redis, self.namespace = redis, namespace
        self._make, self._core = make, make()
        _clients.add(self)

    put, put_many = blocking(_Core.put), blocking(_Core.put_many)
    cancel, reschedule = blocking(_Core.cancel), blocking(_Core.reschedule)
    get, close = blocking(_Core.get), blocking(_Core.close)
    extend, ack = blocking(_Core.extend), blocking(_Core.ack)
    release, bury = blocking(_Core.release), blocking(_Core.bury)

    def topic(self, name: str) -> Topic:
        """Returns a topic: messages, counts, policy and dead letters."""
        return Topic(AsyncTopic(self._core, name))

    def group(self, name: str, *, topic: str | None = None) -> Group:
        """Returns a group: its messages of all topics, or of `topic`."""
        return Group(AsyncGroup(self._core, name, topic))

    def reserve(
        self, topics: Sequence[str], max_messages: int = 1, *,
        lease: timedelta | None = None, wait: timedelta | None = None, promote_until: When | None = None,
    ) -> list[Delivery]:
        """Reserves ready messages under a lease (None: the topic's), in each shard by priority of the topics. Waits up to
        `wait` for a first message (None: not at all). All waiting threads share one connection.

        With `promote_until`, delayed messages due until then follow at once, if fewer are ready: the earliest due of all shards,
        and no more than this call has room for. A call that fails afterwards leaves them ready for every consumer. They are
        promoted once, before the wait."""
        found = drive(self._core.reserve(topics, max_messages, lease=lease, wait=wait, promote_until=promote_until))
        return cast("list[Delivery]", found)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *fault: object) -> None:
        self.close()


def _given(redis: Any) -> list[Any]:
    """The given connections."""
    return [getattr(node, "redis", node) for node in redis] if isinstance(redis, (list, tuple)) else [redis]


def core_of(client: Client | AsyncClient, kind: type[Client] | type[AsyncClient]) -> _Core:
    """Returns the verbs of a client, which must be of this kind."""
    if not isinstance(client, kind):
        raise InvalidArgument(f"client must be of {kind.__name__}, not {shown(client)}")
    return client if isinstance(client, AsyncClient) else client._core


#: Clients of this process. After a fork, the child gives each client new connections, threads and locks.
_clients: "weakref.WeakSet[Client]" = weakref.WeakSet()


def _start_over() -> None:
    for client in list(_clients):
        if not client._core._is_closed:
            client._core = client._make()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_over)
