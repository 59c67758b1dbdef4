"""Drains topics in a test: delivers message after message, and moves the deployment to the next due time in between."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from .checks import shown, whole
from .delivery import Leased, settling_item
from .errors import InvalidArgument
from .items import Item
from .names import name
from .outcome import Outcome
from .promoting import promote_earliest
from .protocol import MAX_IDS_A_CALL, MAX_TIME_MS, Word
from .reserving import Reserving
from .topic import AsyncTopic

#: Default maximum of deliveries, beyond which a handler is taken to put messages for ever.
MAX_DELIVERIES = 1000
#: Owner of the shards, and its lock in ms: a worker that pumps may take them at once.
_OWNER: list[Any] = ["worker/testing", 1, ""]


class Drained(NamedTuple):
    """One delivery: the message, how it was settled, and what the handler raised."""

    topic: str
    id: str
    group: str | None
    payload: bytes
    attempt: int
    #: `delivered`; after a failure, `delayed` or `ready` for another attempt, or `buried`; or as the handler settled it.
    word: Word
    error: BaseException | None


class NotDrained(AssertionError):
    """Messages are left that no further delivery would finish. `drained` has the deliveries up to then."""

    def __init__(self, why: str, drained: list[Drained]) -> None:
        super().__init__(why)
        self.drained = drained


class Draining:
    """One drain."""

    def __init__(self, verbs: Reserving, handlers: Mapping[str, Callable[[Any], object]], max_deliveries: int) -> None:
        if not isinstance(handlers, Mapping) or not handlers or not all(map(callable, handlers.values())):
            raise InvalidArgument(f"handlers must be a mapping of topics to functions, not {shown(handlers)}")
        for topic, handler in handlers.items():
            name("topic", topic)
            if inspect.isgeneratorfunction(handler) or inspect.isasyncgenfunction(handler):
                raise InvalidArgument(f"the handler of {topic} is a generator, so its body would never run: return instead of yielding")
        self._verbs, self._handlers = verbs, handlers
        self._max_deliveries = whole("max_deliveries", max_deliveries, 1, MAX_TIME_MS)
        self._drained: list[Drained] = []

    async def run(self) -> list[Drained]:
        while (delivery := await self._next()) is not None:
            if len(self._drained) == self._max_deliveries:
                await delivery._settle(delivery.receipt.item("release", 0, "keep", ""))
                raise NotDrained(self._endless(delivery), self._drained)
            self._drained.append(await self._handle(delivery))
        if left := [why for topic in self._handlers if (why := await self._left(topic))]:
            raise NotDrained("; ".join(left), self._drained)
        return self._drained

    async def _next(self) -> Leased | None:
        """Reserves a message that is ready, or else the one that is due first."""
        topics = list(self._handlers)
        for advance in (None, self._promote_first, pump):
            if advance is not None:
                await advance(self._verbs)
            if found := await self._verbs.reserve(topics):
                return found[0]
        return None

    async def _promote_first(self, verbs: Reserving) -> None:
        """Promotes the message that is due first, unless it is due already."""
        topics = list(self._handlers)
        firsts = [(await _first_due(verbs, topic), topic) for topic in topics] if len(topics) > 1 else [(0, topics[0])]
        await promote_earliest(verbs, min(firsts)[1], MAX_TIME_MS, 1)

    async def _handle(self, delivery: Leased) -> Drained:
        noted = delivery._holder = _Noted(delivery._holder)
        returned, fault = await self._verbs._runtime.handled(self._handlers[delivery.topic], delivery)
        if not isinstance(fault, (Exception, SystemExit, type(None))):
            raise fault  # of the test, such as Ctrl-C or pytest.fail
        if not delivery.is_settled:
            item, fault = settling_item(delivery, returned, fault)
            await delivery._settle(item)
        return Drained(
            delivery.topic, delivery.id, delivery.group, delivery.payload, delivery.attempt, noted.outcome.word, fault
        )

    async def _left(self, topic: str) -> str:
        """Says what cannot be delivered; empty if nothing is left."""
        numbers = await AsyncTopic(self._verbs, topic).count()
        if numbers.leased:
            return f"{topic} has leased messages ({numbers.leased}): before a drain, settle what the test itself has reserved"
        if numbers.ready + numbers.delayed:
            return f"{topic} has messages ({numbers.ready + numbers.delayed}) that cannot be reserved: is it paused, or limited by a rate?"
        return ""

    def _endless(self, delivery: Leased) -> str:
        last = self._drained[-1]
        raised = f"; the handler raised {last.error!r} at last" if last.error else ""
        return (
            f"{delivery.topic} is not drained after {self._max_deliveries} deliveries, {delivery.id} is next: does its handler put "
            f"messages for ever, or fail for ever? Else give max_deliveries{raised}"
        )


class _Noted:
    """Settles a delivery, and notes the outcome."""

    def __init__(self, holder: Any) -> None:
        self._holder, self.outcome = holder, Outcome(Word.UNANSWERED)
        self.max_payload_bytes: int = holder.max_payload_bytes

    async def settle(self, delivery: Leased, item: Item) -> Outcome:
        self.outcome = await self._holder.settle(delivery, item)
        return self.outcome

    async def prolong(self, delivery: Leased, item: Item) -> Outcome:
        outcome: Outcome = await self._holder.prolong(delivery, item)
        return outcome


async def _first_due(verbs: Reserving, topic: str) -> int:
    async for found in AsyncTopic(verbs, topic).list("delayed"):
        return found.due_ms
    return MAX_TIME_MS


async def pump(verbs: Reserving) -> None:
    """Makes everything ready that is due by now, as a timer does."""
    for shard, claimed in enumerate(await verbs._call_each_shard("claim", _OWNER)):
        word = b"more"
        while word.startswith(b"more"):
            word, *_ = await verbs._call("pump", shard, [claimed[1], MAX_IDS_A_CALL])
