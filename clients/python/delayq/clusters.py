"""redis-py's clients of a Redis Cluster, for users without permission for COMMAND, as all users of delayq.

redis-py needs COMMAND to find the keys of commands; delayq's client routes its calls itself.
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
