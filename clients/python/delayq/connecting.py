"""Connects by URL, as delayq's programs do."""

from typing import Any

from redis import Redis
from redis.asyncio import Redis as AsyncRedis
from redis.asyncio.cluster import ClusterNode as AsyncClusterNode
from redis.asyncio.cluster import RedisCluster as AsyncRedisCluster
from redis.asyncio.sentinel import Sentinel as AsyncSentinel
from redis.cluster import ClusterNode, RedisCluster
from redis.sentinel import Sentinel

from .addresses import Address, read_address
from .checks import shown
from .clusters import AsyncModestCluster, ModestCluster
from .errors import InvalidArgument
from .link import DEADLINE_S
from .runtime import Loop, Runtime, Threads
from .single import read_single

#: Default connect timeout.
CONNECT_S = 1.0


def connect(url: str, **options: Any) -> "Redis | RedisCluster":
    """Connects by URL, for a `Client`: `redis://[user[:password]@]host[:port][/db]`, `rediss://…`, `unix:///path[?db=N]`;
    `redis+sentinel://[user[:password]@]host[:port],…/service[?db=N]`; or `redis+cluster://[user[:password]@]host[:port],…`;
    `rediss+…` for TLS. `options` are options of redis-py, such as `socket_timeout`. A cluster is asked for the nodes
    immediately."""
    made: Redis | RedisCluster = _made(url, options, Threads, Redis, Sentinel, ModestCluster, ClusterNode)
    return made


def connect_async(url: str, **options: Any) -> "AsyncRedis | AsyncRedisCluster":
    """As `connect`, for an `AsyncClient`. A cluster is asked for the nodes by the first call."""
    made: AsyncRedis | AsyncRedisCluster
    made = _made(url, options, Loop, AsyncRedis, AsyncSentinel, AsyncModestCluster, AsyncClusterNode)
    return made


def _made(
    url: str, options: dict[str, Any], runtime: type[Runtime], one: Any, sentinel: Any, cluster: Any, node: Any
) -> Any:
    """Connects with these classes of redis-py."""
    if not isinstance(url, str):
        raise InvalidArgument(f"url must be a str, not {shown(url)}")
    address = read_address(url)
    if address is None:
        return one(**_bounded(read_single(url) | options))
    settings = _settings(address, options)
    if address.kind == "cluster":
        return cluster(startup_nodes=[node(*place) for place in address.nodes], **settings)
    group = sentinel(list(address.nodes), sentinel_kwargs=_of_sentinels(settings) | {"retry": runtime.retry_lost})
    return group.master_for(address.service, db=address.db, **settings)


def _bounded(options: dict[str, Any]) -> dict[str, Any]:
    """Adds timeouts, so that no wait is endless."""
    return {"socket_timeout": DEADLINE_S, "socket_connect_timeout": CONNECT_S} | options


def _settings(address: Address, options: dict[str, Any]) -> dict[str, Any]:
    said: dict[str, Any] = {"username": address.username, "password": address.password}
    if address.tls:
        said["ssl"] = True
    return _bounded({name: value for name, value in said.items() if value is not None} | options)


def _of_sentinels(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings for Sentinels: never the login of Redis, and a shorter timeout, since another Sentinel can answer."""
    shared = {name: value for name, value in settings.items() if name.startswith(("socket_", "ssl"))}
    return shared | {"socket_timeout": settings["socket_connect_timeout"]}
