"""redis-py's clients of a Redis Cluster, for users who may not ask for the list of commands, as none of delayq's may.

redis-py uses the list to find the keys of commands that it is given; delayq's client says itself where its calls go.
"""

from typing import Any

from redis.asyncio.cluster import RedisCluster as AsyncRedisCluster
from redis.cluster import RedisCluster
from redis.exceptions import NoPermissionError


class ModestCluster(RedisCluster):
    def command(self, **options: Any) -> Any:
        try:
            return super().command(**options)
        except NoPermissionError:
            return {}


class AsyncModestCluster(AsyncRedisCluster):
    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        ask = self.commands_parser.initialize

        async def initialize(node: Any = None) -> None:
            try:
                await ask(node)
            except NoPermissionError:
                self.commands_parser.commands = {}

        self.commands_parser.initialize = initialize  # type: ignore[method-assign]
