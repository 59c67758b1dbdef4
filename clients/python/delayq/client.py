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
from .inspecting import Inspecting
from .message import MAX_PAYLOAD_BYTES
from .nodes import Node
from .producing import Producing
from .reserving import Reserving
from .runtime import Loop, Runtime, Threads, blocking, drive
from .times import MAX_WAIT_MS, span_ms
from .topic import AsyncTopic, Topic


class _Core(Producing, Inspecting, Reserving):
    """All verbs."""

    def __init__(
        self, redis: Any, namespace: str, max_payload_bytes: int, confirm_timeout: timedelta | None, runtime: Runtime
    ) -> None:
        confirm_ms = None if confirm_timeout is None else span_ms("confirm_timeout", confirm_timeout, 1, MAX_WAIT_MS)
        super().__init__(redis, namespace, runtime, confirm_ms)
        self.redis = redis
        self.max_payload_bytes = whole("max_payload_bytes", max_payload_bytes, 0, MAX_PAYLOAD_BYTES)
        self._is_closed = False

    async def close(self) -> None:
        """Ends those who wait, and closes the client's connections. The one that was given stays open."""
        self._runtime.enter()
        self._is_closed = True
        await self._runtime.shielded(self._close())

    async def _close(self) -> None:
        await self._watch.close()
        await self._link.close()


class AsyncClient(_Core):
    """A deployment of delayq, by asyncio. Its verbs are safe to repeat; the README says what a repeat does.

    Connections of its own are made by the settings of `redis`: a Redis, one of a Sentinel's `master_for`, or a RedisCluster;
    or of each `Node` of several independent Redises.
    `confirm_timeout` is how long replicas or a disk have to confirm a write whose topic asks for it: at most, and unless given,
    half of the time for an answer (`socket_timeout`, or 5 s).
    """

    def __init__(
        self, redis: "AsyncRedis | AsyncRedisCluster | Sequence[Node]", namespace: str = "dq", *, max_payload_bytes: int = 262144,
        confirm_timeout: timedelta | None = None,
    ) -> None:
        if any(isinstance(one, (Redis, RedisCluster)) for one in _given(redis)):
            raise InvalidArgument("redis blocks: give one of redis.asyncio, or use Client")
        super().__init__(redis, namespace, max_payload_bytes, confirm_timeout, Loop())

    def topic(self, name: str) -> AsyncTopic:
        """The messages, numbers, policy and dead letters of a topic."""
        return AsyncTopic(self, name)

    def group(self, name: str) -> AsyncGroup:
        """The messages of a group."""
        return AsyncGroup(self, name)

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *fault: object) -> None:
        await self.close()


class Client:
    """A deployment of delayq, by calls that block. Threads may share it. Its verbs are safe to repeat; the README says what
    a repeat does.

    Connections of its own are made by the settings of `redis`: a Redis, one of a Sentinel's `master_for`, or a RedisCluster;
    or of each `Node` of several independent Redises.
    `confirm_timeout` is how long replicas or a disk have to confirm a write whose topic asks for it: at most, and unless given,
    half of the time for an answer (`socket_timeout`, or 5 s).
    """

    def __init__(
        self, redis: "Redis | RedisCluster | Sequence[Node]", namespace: str = "dq", *, max_payload_bytes: int = 262144,
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
        """The messages, numbers, policy and dead letters of a topic."""
        return Topic(AsyncTopic(self._core, name))

    def group(self, name: str) -> Group:
        """The messages of a group."""
        return Group(AsyncGroup(self._core, name))

    def reserve(
        self, topics: Sequence[str], max_messages: int = 1, *,
        lease: timedelta | None = None, wait: timedelta | None = None,
    ) -> list[Delivery]:
        """Takes ready messages under a lease (None: the topic's), in each shard of the first topics first. Where there are
        none, waits for some at most so long (None: not at all). All threads that wait share one connection."""
        found = drive(self._core.reserve(topics, max_messages, lease=lease, wait=wait))
        return cast("list[Delivery]", found)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *fault: object) -> None:
        self.close()


def _given(redis: Any) -> list[Any]:
    """The connections that a client was given."""
    return [getattr(node, "redis", node) for node in redis] if isinstance(redis, (list, tuple)) else [redis]


def core_of(client: Client | AsyncClient, kind: type[Client] | type[AsyncClient]) -> _Core:
    """The verbs of a client, which has to be of this kind."""
    if not isinstance(client, kind):
        raise InvalidArgument(f"client must be of {kind.__name__}, not {shown(client)}")
    return client if isinstance(client, AsyncClient) else client._core


#: Those of this process. One that is forked off makes connections, threads and locks of its own.
_clients: "weakref.WeakSet[Client]" = weakref.WeakSet()


def _start_over() -> None:
    for client in list(_clients):
        if not client._core._is_closed:
            client._core = client._make()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_over)
