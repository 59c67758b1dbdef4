"""Consumers: messages one by one, whose leases are extended until they are settled.

A consumer reserves no more than it may hand out, and outlives outages of Redis. What could not be settled is settled
again for as long as its lease lasts.
"""

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, cast

from .client import AsyncClient, Client, core_of
from .delivery import AsyncDelivery, Delivery, Leased, Receipt, release_item
from .errors import ClientClosed, is_outage
from .items import Answer, Item
from .outcome import Outcome, Word
from .reserving import Reserving, Terms
from .runtime import drive

#: How long to rest after Redis could not be used.
REST_S = 0.5
#: The shortest time between two tries to extend a lease.
PAUSE_S = 0.02
#: How many messages a consumer may hold, or a worker handle, at once.
MAX_CONCURRENCY = 10_000

log = logging.getLogger("delayq")


@dataclass
class _Lease:
    """A lease by this host's clock, reckoned from when a call was sent: it lasts no shorter than is believed."""

    delivery: Leased
    length_s: float
    sent_s: float
    #: When it is to be extended; never, once it is lost.
    due_s: float

    @property
    def lasts(self) -> bool:
        return time.monotonic() < self.sent_s + self.length_s


class Consuming:
    """What consumers and workers of either kind share."""

    def __init__(
        self, client: Reserving, topics: Sequence[str], concurrency: int = 1, lease: timedelta | None = None
    ) -> None:
        self._client, self._runtime = client, client._runtime
        self._terms = Terms.of(topics, concurrency, lease, "concurrency", MAX_CONCURRENCY)
        self._mutex = threading.Lock()
        self._held: dict[Receipt, _Lease] = {}
        self._ready: deque[Any] = deque()
        self._turn, self._freed, self._renew = self._runtime.lock(), self._runtime.bell(), self._runtime.bell()
        self._planned_s = 0.0
        self._renewing: Any = None
        self._is_failing = self.is_stopped = False

    async def next(self) -> AsyncDelivery | None:
        """The next message, as soon as there is one and another one may be handed out; None once it is stopped."""
        async with self._turn:  # one reserves for all that wait
            while not self._ready and not self.is_stopped:
                free = self._terms.max_messages - len(self._held)
                if free > 0:
                    await self._fetch(free)
                else:
                    await self._freed.wait(None)
            return None if self.is_stopped else self._ready.popleft()

    async def settle(self, delivery: Leased, item: Item) -> Outcome:
        """Settles a delivery; again where Redis cannot be used, for as long as the lease lasts, and also where its caller
        gives up."""
        return await self._runtime.shielded(self._settle(delivery, item))

    async def _settle(self, delivery: Leased, item: Item) -> Outcome:
        """Tries until there is an answer, or nothing more to hope for."""
        is_lost = False
        while True:
            (answer,) = await self._asked([item])
            lease = self._held.get(delivery.receipt)
            lasts = lease is not None and lease.lasts
            if isinstance(answer, Answer):
                outcome = Outcome.parse(answer.raw.decode(), item.id, answer.shard, item.verb)
                break
            if not lasts or not is_outage(answer):
                self._end(delivery.receipt)
                raise answer
            is_lost = True
            await self._runtime.bell().wait(REST_S)
        self._end(delivery.receipt)
        # A lease that has not run out can only have been ended by the try whose answer was lost.
        if is_lost and lasts and outcome.word is Word.EXPIRED and item.verb in ("ack", "bury"):
            return replace(outcome, word=Word.DELIVERED if item.verb == "ack" else Word.BURIED)
        return outcome

    async def prolong(self, delivery: Leased, item: Item) -> Outcome:
        """Extends the lease of one delivery, besides what is done by itself."""
        sent_s = time.monotonic()
        (answer,) = await self._asked([item])
        if isinstance(answer, Exception):
            raise answer
        self._note_extended(delivery.receipt, answer, sent_s)
        return Outcome.parse(answer.raw.decode(), item.id, answer.shard, item.verb)

    async def check(self) -> None:
        """Raises what is wrong with the deployment; a Redis that cannot be used now is waited for later."""
        try:
            await self._client._learn()
        except Exception as fault:
            if not is_outage(fault):
                raise

    def stop_taking(self) -> None:
        """Reserves no more; those who wait for the next message get none."""
        self.is_stopped = True
        self._freed.ring()
        self._renew.ring()
        self._client._watch.wake(self._terms.topics)

    async def stop(self) -> None:
        """Reserves no more, and gives back what nobody has settled, with its attempt. Goes on where its caller gives up."""
        self.stop_taking()
        await self._runtime.shielded(self._stop())

    async def _stop(self) -> None:
        with self._mutex:
            self._ready.clear()
            left = list(self._held)
        await self._give_back(left)
        with self._mutex:
            for receipt in left:
                self._held.pop(receipt, None)
        self._renew.ring()
        if self._renewing is not None:
            await self._renewing.join(None)

    async def _give_back(self, receipts: Sequence[Receipt]) -> None:
        items = [release_item(receipt, timedelta(0), keep_attempt=True) for receipt in receipts]
        for item, answer in zip(items, await self._asked(items), strict=True):
            if isinstance(answer, Exception):
                log.warning("%s was not given back, and comes again when its lease runs out: %s", item.id, answer)

    async def _asked(self, items: Sequence[Item]) -> list[Answer | Exception]:
        """What is answered of each item, or why nothing is."""
        try:
            return await self._client._answers(items) if items else []
        except Exception as fault:
            return [fault] * len(items)

    async def _fetch(self, free: int) -> None:
        terms = self._terms._replace(max_messages=free)
        try:
            found = await self._client._reserve_waiting(terms, threading.TIMEOUT_MAX, lambda: self.is_stopped)
        except ClientClosed:
            raise
        except Exception as fault:
            if not self._is_failing:
                log.warning("nothing can be reserved; it is tried again until it succeeds: %s", fault)
            self._is_failing = True
            await self._runtime.bell().wait(REST_S)
            return
        self._is_failing = False
        if not self._keep(found):
            await self._runtime.shielded(self._give_back([delivery.receipt for delivery in found]))

    def _keep(self, found: Sequence[Leased]) -> bool:
        """Begins to keep leases; false where it was stopped meanwhile: nobody would end them."""
        if found and self._renewing is None:
            self._renewing = self._runtime.spawn(self._keep_alive, "delayq-renew")
        with self._mutex:
            if self.is_stopped:
                return False
            for delivery in found:
                delivery._holder = self
                length_s = delivery.lease_ms / 1000
                self._held[delivery.receipt] = _Lease(delivery, length_s, delivery.sent_s, delivery.sent_s + length_s / 3)
                self._ready.append(delivery)
            is_sooner = any(self._held[one.receipt].due_s < self._planned_s for one in found)
        if is_sooner:
            self._renew.ring()
        return True

    def _end(self, receipt: Receipt) -> None:
        """Keeps a lease no longer."""
        with self._mutex:
            self._held.pop(receipt, None)
        self._freed.ring()

    async def _keep_alive(self) -> None:
        """Extends each lease three times in its length, until there are none once it is stopped."""
        while self._held or not self.is_stopped:
            try:
                await self._extend_due()
            except Exception:
                log.exception("leases were not extended; it is tried again")
                await self._runtime.bell().wait(REST_S)

    async def _extend_due(self) -> None:
        now_s = time.monotonic()
        with self._mutex:
            self._planned_s = min((lease.due_s for lease in self._held.values()), default=math.inf)
            soon = [one for one, lease in self._held.items() if lease.due_s <= now_s + lease.length_s / 6]
        if self._planned_s > now_s:
            await self._renew.wait(min(self._planned_s - now_s, threading.TIMEOUT_MAX))
            return
        items = [receipt.item("extend", self._terms.lease_ms) for receipt in soon]
        for receipt, answer in zip(soon, await self._asked(items), strict=True):
            self._note_extended(receipt, answer, now_s)

    def _note_extended(self, receipt: Receipt, answer: Answer | Exception, sent_s: float) -> None:
        lease = self._held.get(receipt)
        if lease is None:
            return
        outcome = None if isinstance(answer, Exception) else Outcome.parse(answer.raw.decode())
        if outcome is not None and outcome.word is Word.EXTENDED and outcome.time_ms is not None:
            lease.sent_s, lease.due_s = sent_s, sent_s + lease.length_s / 3
            lease.delivery.lease_end_ms = outcome.time_ms
            lease.delivery.lost |= outcome.doomed
        elif isinstance(answer, ClientClosed) or outcome is not None and outcome.word is Word.EXPIRED:
            lease.due_s, lease.delivery.lost = math.inf, True
        else:
            log.warning("the lease of %s was not extended; it is tried again: %s", receipt.id, answer)
            lease.due_s = time.monotonic() + max(lease.length_s / 12, PAUSE_S)


class AsyncConsumer:
    """An asynchronous iterator of messages, each to be acked, released or buried by its holder.

        async with AsyncConsumer(client, ["orders"], concurrency=10) as consumer:
            async for delivery in consumer:
                ...
                await delivery.ack()

    At most `concurrency` messages are handed out and not settled. Leases are extended until then. At the end of `async with`
    it reserves no more, and gives back what is not settled, with its attempt.
    """

    def __init__(
        self, client: AsyncClient, topics: Sequence[str], *, concurrency: int = 1, lease: timedelta | None = None
    ) -> None:
        self._consuming = Consuming(core_of(client, AsyncClient), topics, concurrency, lease)

    def __aiter__(self) -> "AsyncConsumer":
        return self

    async def __anext__(self) -> AsyncDelivery:
        delivery = await self._consuming.next()
        if delivery is None:
            raise StopAsyncIteration
        return delivery

    async def stop(self) -> None:
        """Ends the iteration, and gives back what is not settled, with its attempt. May be called from elsewhere."""
        await self._consuming.stop()

    async def __aenter__(self) -> "AsyncConsumer":
        return self

    async def __aexit__(self, *fault: object) -> None:
        await self.stop()


class Consumer:
    """An iterator of messages, each to be acked, released or buried by its holder, in any thread.

        with Consumer(client, ["orders"], concurrency=10) as consumer:
            for delivery in consumer:
                ...
                delivery.ack()

    At most `concurrency` messages are handed out and not settled. Leases are extended until then. At the end of `with` it
    reserves no more, and gives back what is not settled, with its attempt.
    """

    def __init__(
        self, client: Client, topics: Sequence[str], *, concurrency: int = 1, lease: timedelta | None = None
    ) -> None:
        self._consuming = Consuming(core_of(client, Client), topics, concurrency, lease)

    def __iter__(self) -> "Consumer":
        return self

    def __next__(self) -> Delivery:
        delivery = drive(self._consuming.next())
        if delivery is None:
            raise StopIteration
        return cast(Delivery, delivery)

    def stop(self) -> None:
        """Ends the iteration, and gives back what is not settled, with its attempt. May be called from elsewhere."""
        drive(self._consuming.stop())

    def __enter__(self) -> "Consumer":
        return self

    def __exit__(self, *fault: object) -> None:
        self.stop()
