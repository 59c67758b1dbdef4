"""Several independent Redises that share a deployment, each with some of the shards."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from redis.exceptions import ConnectionError as LostConnection

from .checks import shown
from .errors import InvalidArgument
from .marks import Marks
from .names import name
from .places import Place, Sentinels, place_of
from .protocol import MAX_SHARDS
from .runtime import Runtime


class Node(NamedTuple):
    """One of several Redises, with a range of shards."""

    #: Recorded by every shard of the node; a shard refuses calls addressed to another node.
    name: str
    #: A Redis, or a Sentinel's `master_for`.
    redis: Any
    #: Inclusive ranges, such as "0-7,16-19", including shards of a planned growth. Empty means none yet.
    shards: str


class Nodes(Place):
    """The nodes; the name of a server is the name of the node."""

    is_several = True

    def __init__(self, nodes: Sequence[Node], namespace: str, runtime: Runtime) -> None:
        for node in nodes:
            if not isinstance(node, Node):
                raise InvalidArgument(f"redis must be a client of redis-py, or a list of Node, not of {shown(node)}")
            if not isinstance(node.shards, str):
                raise InvalidArgument(f"shards of node {shown(node.name)} must be a str, such as 0-7, not {shown(node.shards)}")
        self._homes = _homes(nodes)
        marks = {node.name: Marks(namespace, _shards(node.shards)) for node in nodes}
        self._places = {node.name: place_of(node.redis, runtime, marks[node.name]) for node in nodes}
        for node in nodes:
            if type(self._places[node.name]) not in (Place, Sentinels):
                raise InvalidArgument(f"node {node.name} is a Redis Cluster, which distributes shards itself")

    async def server(self, key: str) -> str:
        return self.node(int(key.partition(":")[2].partition("}")[0]))

    def settings(self, server: str) -> tuple[Any, dict[str, Any]]:
        if not server:
            last = len(self._homes) - 1
            raise LostConnection(f"a shard has no node among those that were given, of 0 to {last}: add the node that has it")
        return self._places[server].settings("")

    async def is_replaced(self) -> bool:
        return any([await place.is_replaced() for place in self._places.values()])

    async def close(self) -> None:
        for place in self._places.values():
            await place.close()

    def node(self, shard: int) -> str:
        return self._homes[shard] if shard < len(self._homes) else ""

    def move(self, shard: int, node: str) -> bool:
        is_known = node in self._places and shard < len(self._homes)
        if is_known:
            self._homes[shard] = node
        return is_known

    def first_shards(self) -> list[int]:
        return [self._homes.index(name) for name in self._places if name in self._homes]


def _homes(nodes: Sequence[Node]) -> list[str]:
    """The node of each shard."""
    homes: dict[int, str] = {}
    names = [node.name for node in nodes]
    for node in nodes:
        name("node", node.name)
        if names.count(node.name) > 1:
            raise InvalidArgument(f"two nodes have the name {node.name}")
        for shard in _shards(node.shards):
            if shard in homes:
                raise InvalidArgument(f"shard {shard} has two nodes: {homes[shard]} and {node.name}")
            homes[shard] = node.name
    for shard in range(len(homes)):
        if shard not in homes:
            raise InvalidArgument(f"shard {shard} has no node")
    if not homes:
        raise InvalidArgument("no node is given")
    return [homes[shard] for shard in range(len(homes))]


def _shards(ranges: str) -> list[int]:
    shards: list[int] = []
    for text in ranges.split(",") if ranges else []:
        ends = re.fullmatch(r"(\d{1,4})(?:-(\d{1,4}))?", text)
        low, high = (int(ends[1]), int(ends[2] or ends[1])) if ends else (1, 0)
        if low > high or high >= MAX_SHARDS:
            told = f"ranges of 0 to {MAX_SHARDS - 1} with both ends, such as 0-7,16-19"
            raise InvalidArgument(f"{shown(ranges)} is not a list of shards: {told}")
        shards += range(low, high + 1)
    return shards
