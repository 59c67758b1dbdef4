"""The clients: a deployment of delayq over `redis.Redis`, or over `redis.asyncio.Redis`."""

from typing import cast

from redis import Redis
from redis.asyncio import Redis as AsyncRedis

from .calls import R, Steps
from .verbs import Verbs


class Client(Verbs[Redis]):
    """The blocking client. Threads may share it, as they may its connection."""

    def run(self, steps: Steps[R]) -> R:
        """Carries the steps of a verb out."""
        answer = None
        with self.redis.pubsub() as listener:  # type: ignore[no-untyped-call]
            try:
                while True:
                    answer = steps.send(answer)(self.redis, listener)
            except StopIteration as end:
                return cast(R, end.value)


class AsyncClient(Verbs[AsyncRedis]):
    """The asynchronous client."""

    async def run(self, steps: Steps[R]) -> R:
        """Carries the steps of a verb out."""
        answer = None
        async with self.redis.pubsub() as listener:
            try:
                while True:
                    answer = await steps.send(answer)(self.redis, listener)
            except StopIteration as end:
                return cast(R, end.value)
