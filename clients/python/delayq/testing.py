"""Helpers for tests: a deployment for one test, what is pending in it, and deliveries without waiting.

    @pytest.fixture
    def queue():
        with isolated("redis://127.0.0.1:6379") as queue:
            yield queue

    def test_an_unpaid_order_is_cancelled(queue):
        place_order(queue.client)
        assert [one.id for one in queue.pending("orders")] == ["order-17"]
        queue.drain({"orders": cancel_if_unpaid})
"""

import secrets
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime
from typing import Any, NamedTuple

from redis import Redis
from redis.asyncio import Redis as AsyncRedis
from redis.exceptions import ResponseError

from .checks import shown, whole
from .client import AsyncClient, Client, core_of
from .connecting import connect, connect_async
from .draining import MAX_DELIVERIES, Drained, Draining, NotDrained, pump
from .errors import InvalidArgument
from .protocol import MAX_SHARDS, META, NEVER, key_of
from .reserving import Reserving
from .runtime import blocking, drive, settled
from .scripts import script
from .topic import AsyncTopic

__all__ = ["AsyncDeployment", "Deployment", "Drained", "NotDrained", "NotRemovable", "Pending"]
__all__ += ["isolated", "isolated_async"]

#: Keys that a step of a removal visits.
KEYS_A_STEP = 10_000


class NotRemovable(RuntimeError):
    """This Redis would not let a deployment be removed whole, so none was created."""


class Pending(NamedTuple):
    """A message that waits for its due time, or for a worker."""

    id: str
    due: datetime
    payload: bytes
    group: str | None
    headers: tuple[tuple[str, str], ...]


class _Verbs:
    """What both kinds of deployments do."""

    def __init__(self, verbs: Reserving) -> None:
        self._verbs, self.namespace = verbs, verbs.namespace

    async def pending(self, topic: str) -> list[Pending]:
        """Returns the delayed and ready messages of a topic in the order of due times."""
        listed = AsyncTopic(self._verbs, topic)
        found = [one async for one in listed.list("delayed")] + [one async for one in listed.list("ready")]
        return [Pending(one.id, one.due, one.payload, one.group, one.headers) for one in sorted(found, key=lambda one: one.due_ms)]

    async def promote_all(self, topic: str) -> int:
        """Makes all delayed messages of a topic ready now. Returns the number."""
        promoted = AsyncTopic(self._verbs, topic)
        before = await promoted.count()
        await pump(self._verbs)
        await promoted.promote()
        return before.delayed - (await promoted.count()).delayed

    async def drain(
        self, handlers: Mapping[str, Callable[[Any], object]], *, max_deliveries: int = MAX_DELIVERIES
    ) -> list[Drained]:
        """Delivers messages to the handler of their topic, as a worker does: what is ready, and then one by one what is due
        first, until nothing is delayed, ready or leased. Attempts after a back-off and messages that handlers put are included.
        Returns every delivery. Raises `NotDrained` after `max_deliveries`, or if a message cannot be delivered."""
        return await Draining(self._verbs, handlers, max_deliveries).run()


class AsyncDeployment(_Verbs):
    """A deployment without a timer, for one test with asyncio: its messages become due by `promote_all` and `drain`."""

    def __init__(self, client: AsyncClient) -> None:
        super().__init__(core_of(client, AsyncClient))
        #: For the program under test.
        self.client = client


class Deployment:
    """A deployment without a timer, for one test: its messages become due by `promote_all` and `drain`."""

    def __init__(self, client: Client) -> None:
        self._core = _Verbs(core_of(client, Client))
        #: For the program under test.
        self.client, self.namespace = client, client.namespace

    pending, promote_all, drain = blocking(_Verbs.pending), blocking(_Verbs.promote_all), blocking(_Verbs.drain)


@contextmanager
def isolated(redis: "Redis | str", *, shards: int = 1) -> Iterator[Deployment]:
    """Creates a deployment in a namespace of its own, and removes all of its keys at the end. `redis` is one Redis, or its URL;
    nothing else in it is touched, though a removal walks through all of its keys. Raises `NotRemovable` first, where that is
    refused."""
    given = connect(redis) if isinstance(redis, str) else redis
    if isinstance(given, AsyncRedis):
        raise InvalidArgument("redis is asynchronous: give one that blocks, or use isolated_async")
    try:
        space = _Space(given, shards)
        with Client(given, space.namespace) as client:
            deployment = Deployment(client)
            drive(space.create())
            try:
                yield deployment
            finally:
                drive(space.remove())
    finally:
        if given is not redis:
            given.close()


@asynccontextmanager
async def isolated_async(redis: "AsyncRedis | str", *, shards: int = 1) -> AsyncIterator[AsyncDeployment]:
    """As `isolated`, for asyncio."""
    given = connect_async(redis) if isinstance(redis, str) else redis
    if isinstance(given, Redis):
        raise InvalidArgument("redis blocks: give one of redis.asyncio, or use isolated")
    try:
        space = _Space(given, shards)
        async with AsyncClient(given, space.namespace) as client:
            deployment = AsyncDeployment(client)
            await space.create()
            try:
                yield deployment
            finally:
                await space.remove()
    finally:
        if given is not redis:
            await given.aclose()


class _Space:
    """A namespace that no other test has."""

    def __init__(self, redis: Any, shards: int) -> None:
        self.shards = whole("shards", shards, 1, MAX_SHARDS)
        if not isinstance(redis, (Redis, AsyncRedis)):
            raise InvalidArgument(f"redis must be one Redis, whose keys can be removed at once, or its URL, not {shown(redis)}")
        self.redis, self.namespace = redis, f"test-{secrets.token_hex(8)}"
        self._metas = [key_of(self.namespace, shard, META) for shard in range(self.shards)]

    async def create(self) -> None:
        """Creates the shards, once a removal is known to be allowed."""
        try:
            await settled(self.redis.scan(match=self._metas[0], count=1))
            await settled(self.redis.unlink(*self._metas))
        except ResponseError as fault:
            raise NotRemovable(f"this Redis would not let a test remove its deployment, so none was created: {fault}") from fault
        source, _ = script("init")
        for shard, meta in enumerate(self._metas):
            await settled(self.redis.eval(source, 2, meta, key_of(self.namespace, shard, NEVER), 1, shard, self.shards))

    async def remove(self) -> None:
        """Removes all keys. Without their `meta`, scripts write nothing more."""
        await settled(self.redis.unlink(*self._metas))
        cursor: Any = None
        while cursor != 0:
            cursor, keys = await settled(self.redis.scan(cursor or 0, match=f"{{{self.namespace}:*", count=KEYS_A_STEP))
            if keys:
                await settled(self.redis.unlink(*keys))
