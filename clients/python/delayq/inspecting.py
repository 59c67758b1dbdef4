"""Reads stored messages: one message, or the messages of a topic."""

import heapq
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from .calls import item_of
from .compression import Restoring
from .envelope import Stored, named
from .items import Arg
from .names import stored_id, topic_arg
from .protocol import State

PAGE = 32


class Inspecting(Restoring):
    async def get(self, topic: str, id: str, group: str | None = None) -> Stored | None:
        """Returns a message, or the record of a finished message; None if Redis has neither. The same own id in another group
        is another message."""
        (answer,) = await self._answers([item_of("peek", (topic_arg(topic),), id, group)])
        if isinstance(answer, Exception):
            raise answer
        return await self._shown(named(topic, stored_id(id, group), answer.shard), answer.raw) if answer.raw else None

    async def _list(self, topic: str, state: str, from_ms: int, to_ms: int) -> AsyncIterator[Stored]:
        """Iterates over the messages of a topic in one state, by time over all shards."""
        page = _Page(topic, state, to_ms)
        shards = [
            self._listed(page, shard, first)
            for shard, first in enumerate(await self._call_each_shard("list", page.args(from_ms, b"")))
        ]
        heads = [head for shard in range(len(shards)) async for head in _head(shards, shard)]
        heapq.heapify(heads)
        while heads:
            _, shard, message = heads[0]
            yield message
            heapq.heappop(heads)
            async for head in _head(shards, shard):
                heapq.heappush(heads, head)

    async def _listed(self, page: "_Page", shard: int, reply: list[Any]) -> AsyncIterator[Stored]:
        """Iterates over one shard, from the reply with the first page."""
        while True:
            _, at, entry, *items = reply
            for raw, stored in zip(items[::2], items[1::2], strict=True):
                yield await self._shown(named(page.topic, raw, shard), stored)
            if at == b"":
                return
            reply = await self._call("list", shard, page.args(at, entry))


class _Page(NamedTuple):
    """The arguments common to all pages of a listing."""

    topic: str
    state: str
    to_ms: int

    def args(self, at: int | bytes, entry: bytes) -> list[Arg]:
        return [topic_arg(self.topic), self.state, at, self.to_ms, "asc", entry, PAGE]


async def _head(shards: Sequence[AsyncIterator[Stored]], shard: int) -> AsyncIterator[tuple[int, int, Stored]]:
    """Yields the next message of a shard with the time of its state; nothing at the end."""
    with suppress(StopAsyncIteration):
        message = await shards[shard].__anext__()
        is_ended = message.state in (State.LEASED, State.DEAD)
        yield (message.at_ms if is_ended else message.due_ms), shard, message
