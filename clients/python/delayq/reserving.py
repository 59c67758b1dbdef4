"""Operations of workers: reserve and settle."""

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from .asking import Asking
from .calls import listed
from .checks import whole
from .delivery import AsyncDelivery, Leased, Receipt, bury_item, deliveries, release_item
from .errors import ClientClosed, InvalidArgument, is_outage
from .inspecting import Inspecting
from .items import Call, Item
from .names import name
from .outcome import Outcome, acked
from .process import process_name
from .promoting import promote_earliest
from .protocol import DEFAULT_MAX_PAYLOAD_BYTES, MAX_BYTES_A_CALL, MAX_IDS_A_CALL, MAX_SHARDS, Word
from .times import When, epoch_ms, lease_ms, wait_ms
from .watch import Watch

#: Minimum bytes per shard of a reserve.
MIN_BYTES = 64 * 1024
#: Maximum messages of a reserve over all shards.
MAX_MESSAGES = MAX_SHARDS * MAX_IDS_A_CALL
#: Pause before a failed node of several Redises is asked again.
AWAY_S = 0.5

log = logging.getLogger("delayq")


class Terms(NamedTuple):
    """The arguments of a reserve."""

    topics: tuple[str, ...]
    max_messages: int
    lease_ms: int | None

    @classmethod
    def of(
        cls, topics: Sequence[str], max_messages: int, lease: timedelta | None,
        what: str = "max_messages", most: int = MAX_MESSAGES,
    ) -> "Terms":
        names = tuple(name("topic", topic) for topic in listed("topics", topics, str))
        if not names:
            raise InvalidArgument("topics must name at least one topic")
        return cls(names, whole(what, max_messages, 1, most), lease_ms(lease))


class Reserving(Inspecting):
    max_payload_bytes = DEFAULT_MAX_PAYLOAD_BYTES

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        #: The class of deliveries.
        self._made_by: type[Any] = AsyncDelivery
        self._watch = Watch(self._link, self.namespace, self._runtime)

    async def reserve(
        self, topics: Sequence[str], max_messages: int = 1, *,
        lease: timedelta | None = None, wait: timedelta | None = None, promote_until: When | None = None,
    ) -> list[AsyncDelivery]:
        """Reserves ready messages under a lease (None: the topic's), in each shard by priority of the topics. Waits up to
        `wait` for a first message (None: not at all). All waiting calls share one connection.

        With `promote_until`, delayed messages due until then follow at once, if fewer are ready: the earliest due of all shards,
        and no more than this call has room for. A call that fails afterwards leaves them ready for every consumer. They are
        promoted once, before the wait."""
        terms = Terms.of(topics, max_messages, lease)
        waits_ms = 0 if wait is None else wait_ms("wait", wait)
        if promote_until is not None:
            work = self._reserve_promoting(terms, epoch_ms("promote_until", promote_until))
            promoted = await self._runtime.shielded(work, self._give_back)
            if promoted or waits_ms == 0:
                return promoted
        if waits_ms > 0:
            return await self._reserve_waiting(terms, time.monotonic() + waits_ms / 1000, lambda: False)
        first = self._turn % await self._learn()
        self._turn += 1
        nodes: dict[str, list[int]] = {}
        for shard in [*range(first, self._counts[-1]), *range(first)]:
            nodes.setdefault(self._link.place.node(shard), []).append(shard)
        faults: list[Exception] = []
        for shards in nodes.values():  # one, unless several Redises keep the deployment
            asking = Asking(shards)
            try:
                while shares := asking.take(max_messages):
                    if found := await self._reserve_from(terms, shares, asking):
                        return found
            except Exception as fault:
                faults.append(fault)
        if faults:
            raise faults[0]
        return []

    async def extend(self, receipts: Sequence[Receipt], lease: timedelta | None = None) -> list[Outcome]:
        """Extends leases from now."""
        length_ms = lease_ms(lease)
        return await self._outcomes([one.item("extend", length_ms) for one in listed("receipts", receipts, Receipt)])

    async def ack(self, receipts: Sequence[Receipt]) -> list[Outcome]:
        """Finishes delivered messages."""
        return await self._outcomes([one.item("ack") for one in listed("receipts", receipts, Receipt)])

    async def release(
        self, receipts: Sequence[Receipt], delay: timedelta | None = None, *,
        keep_attempt: bool = False, reason: str = "",
    ) -> list[Outcome]:
        """Returns undelivered messages to the queue, after a delay or the back-off."""
        receipts = listed("receipts", receipts, Receipt)
        return await self._outcomes([release_item(one, delay, keep_attempt, reason) for one in receipts])

    async def bury(self, receipts: Sequence[Receipt], reason: str) -> list[Outcome]:
        """Moves undeliverable messages to the dead letters."""
        return await self._outcomes([bury_item(one, reason) for one in listed("receipts", receipts, Receipt)])

    async def settle(self, delivery: Leased, item: Item) -> Outcome:
        """Settles one delivery."""
        outcome = (await self._outcomes([item]))[0]
        return acked(outcome, delivery.id) if item.verb == "put" else outcome

    async def prolong(self, delivery: Leased, item: Item) -> Outcome:
        """Extends the lease of one delivery."""
        outcome = (await self._outcomes([item]))[0]
        if outcome.word is Word.EXTENDED and outcome.time_ms is not None:
            delivery.lease_end_ms = outcome.time_ms
        return outcome

    async def _reserve_waiting(
        self, terms: Terms, until_s: float, is_stopped: Callable[[], bool]
    ) -> list[AsyncDelivery]:
        """Reserves as soon as a message is ready; returns nothing after the deadline or a stop."""
        if self._watch.is_closed:
            raise ClientClosed("the client is closed: make another one")
        bell = self._runtime.bell()
        asking = await self._watch.asking(terms.topics, await self._learn())
        asking.enter(bell)
        away: Exception | None = None
        try:
            while not is_stopped() and not self._watch.is_closed:
                if shares := asking.take(terms.max_messages):
                    try:
                        if found := await self._reserve_from(terms, shares, asking):
                            return found
                    except Exception as fault:
                        if not self._link.place.is_several or not is_outage(fault):
                            raise
                        away = fault  # the others are waited for
                    await self._watch.asking(terms.topics, await self._learn())  # there may be more shards now
                elif (left_s := until_s - time.monotonic()) > 0:
                    await bell.wait(min(left_s, asking.wait_s()))
                elif away:
                    raise away
                else:
                    break
            return []
        finally:
            asking.leave(bell)

    async def _reserve_promoting(self, terms: Terms, until_ms: int) -> list[AsyncDelivery]:
        """Reserves all ready messages that there is room for, and then the earliest due of the others."""
        found: list[AsyncDelivery] = []
        try:
            await self._reserve_all(terms, range(await self._learn()), found)
            for topic in terms.topics:
                if (left := terms.max_messages - len(found)) > 0:
                    order = await promote_earliest(self, topic, until_ms, left)
                    begin = len(found)
                    await self._reserve_all(terms, dict.fromkeys(shard for shard, *_ in order), found)
                    rank = {place: n for n, place in enumerate(order)}
                    found[begin:] = sorted(found[begin:], key=lambda one: rank.get((one.shard, one.id, one.group), -1))
        except Exception as fault:
            if not found:
                raise
            log.warning("reserved %d messages, and then failed: %s", len(found), fault)
        return found

    async def _reserve_all(self, terms: Terms, shards: Iterable[int], found: list[AsyncDelivery]) -> None:
        """Adds the ready messages of some shards, up to the maximum."""
        asking = Asking(shards)
        while (left := terms.max_messages - len(found)) > 0 and (shares := asking.take(left)):
            found += await self._round(terms, shares, asking)

    async def _reserve_from(
        self, terms: Terms, shares: Sequence[tuple[int, int]], asking: Asking
    ) -> list[AsyncDelivery]:
        """Reserves from several shards, each for its share, in one pipeline."""
        return await self._runtime.shielded(self._round(terms, shares, asking), self._give_back)

    async def _round(self, terms: Terms, shares: Sequence[tuple[int, int]], asking: Asking) -> list[AsyncDelivery]:
        max_bytes = max(MAX_BYTES_A_CALL // len(shares), MIN_BYTES)
        words = [*terms.topics, f"by={process_name()}"]
        calls = [Call("reserve", n, [share, max_bytes, terms.lease_ms, *words]) for n, share in shares]
        found: list[tuple[AsyncDelivery, bytes]] = []
        faults: list[Exception] = []
        sent_s = time.monotonic()
        for (shard, share), reply in zip(shares, await self._call_all(calls), strict=True):
            if isinstance(reply, Exception):
                faults.append(reply)
                if self._link.place.is_several:
                    asking.ask_later(shard, AWAY_S)
                else:
                    asking.ask([shard])
                continue
            got = list(deliveries(self._made_by, shard, terms.topics, reply))
            # A shard that gave its whole share may have more.
            back_ms = 0 if len(got) >= share else reply[1]
            if isinstance(back_ms, int):
                asking.ask_later(shard, back_ms / 1000)
            found += got
        if faults and not found:
            raise faults[0]
        return await self._readable(found, sent_s)

    async def _readable(self, found: Sequence[tuple[AsyncDelivery, bytes]], sent_s: float) -> list[AsyncDelivery]:
        """Decodes envelopes, and buries unreadable messages, so that the queue moves on."""
        readable = []
        for delivery, stored in found:
            try:
                await self._read(delivery, stored)
                delivery._holder, delivery.sent_s = self, sent_s
                readable.append(delivery)
            except ValueError as fault:
                await self._bury_unreadable(delivery, str(fault))
            except Exception:  # such as what it is compressed by: others may know it
                await self._give_back([one for one, _ in found], timedelta(seconds=1))
                raise
        return readable

    async def _bury_unreadable(self, delivery: Leased, reason: str) -> None:
        try:
            await self.bury([delivery.receipt], reason)
        except Exception as fault:
            log.warning("%s cannot be read (%s), and was not buried: %s", delivery.id, reason, fault)

    async def _give_back(self, found: Sequence[Leased], delay: timedelta = timedelta(0)) -> None:
        """Releases unstarted messages."""
        try:
            await self.release([one.receipt for one in found], delay, keep_attempt=True)
        except Exception as fault:
            log.warning("%d messages were not released, and return when their leases expire: %s", len(found), fault)
