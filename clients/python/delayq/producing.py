"""Operations of producers: put, cancel, reschedule."""

import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from .calls import Calls, item_of, listed, place_name, places_of
from .checks import flag
from .errors import InvalidArgument
from .items import Item
from .message import Message
from .names import generate_id, generated, name, stored_id, topic_arg
from .outcome import Outcome
from .times import When, difference_ms, epoch_ms, span_ms


class Producing(Calls):
    """Batches the puts of many callers in one pipeline."""

    max_payload_bytes = 262144

    async def put(self, message: Message) -> Outcome:
        """Puts one message."""
        return (await self._put(listed("message", [message], Message)))[0]

    async def put_many(self, messages: Sequence[Message]) -> list[Outcome]:
        """Puts many messages and returns one outcome per message, in order."""
        return await self._put(listed("messages", messages, Message))

    async def _put(self, messages: Sequence[Message]) -> list[Outcome]:
        shard = self._turn % await self._learn()
        is_repeat = any(message.first_tried is not None for message in messages)
        ahead_ms = await self._ahead_ms() if is_repeat else 0
        return await self._outcomes([self._item(message, shard, ahead_ms) for message in messages])

    async def cancel(self, topic: str, id: str, group: str | None = None) -> Outcome:
        """Cancels a message. The same own id in another group is another message."""
        return (await self._outcomes([item_of("cancel", (topic_arg(topic),), id, group)]))[0]

    async def reschedule(
        self, topic: str, id: str, group: str | None = None, *,
        at: When | None = None, after: timedelta | None = None, by: timedelta | None = None,
        expected: When | None = None, past_ok: bool = False,
    ) -> Outcome:
        """Changes the due time of a pending message: `at` a time, `after` a delay from now, or `by` a difference. `expected`
        makes the change conditional on the present due time; a difference requires `expected`, so that a repeat moves nothing
        twice."""
        flag("past_ok", past_ok)
        due: list[Any] = []
        if at is not None:
            due.append(epoch_ms("at", at, past_ok))
        if after is not None:
            due.append(f"+{span_ms('after', after)}")
        if by is not None:
            due.append(f"by {difference_ms('by', by):+}")
        if len(due) != 1 or by is not None and expected is None:
            raise InvalidArgument("give at, a time; after, a delay; or by, a difference, with expected")
        expected_ms = None if expected is None else epoch_ms("expected", expected, past_ok)
        head = (name("topic", topic),)
        return (await self._outcomes([item_of("reschedule", head, id, group, due[0], expected_ms)]))[0]

    def _item(self, message: Message, shard: int, ahead_ms: int) -> Item:
        """Encodes a put. Generated ids go to the shards in turn, or to the shard of the group."""
        places = places_of(shard if message.group is None else message.group.encode(), self._counts)
        id = generate_id(places[0]) if message.id is None else message.id
        stored = stored_id(id, message.group)
        is_own = not generated(stored)
        if message.group is not None and not is_own and places_of(stored, ())[0] not in places:
            raise InvalidArgument(f"{id} was generated for another shard than its group's")
        envelope = message.envelope(is_own, self.max_payload_bytes)
        args = stored, message.due(), message.options(ahead_ms), envelope
        return Item("put", place_name(stored, message.group), (message.topic,), args, id)

    async def _ahead_ms(self) -> int:
        """Returns how far the Redis clock is ahead of the local clock, rounded up."""
        asked_ms = time.time_ns() // 1_000_000
        seconds, micros = await self._time()
        return seconds * 1000 + micros // 1000 + 1 - asked_ms
