"""Consumers yield messages one by one, and extend each lease until settlement.

A consumer reserves no more messages than `concurrency`, and continues across outages of Redis. Settlements are retried until
the lease expires.
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
from .outcome import Outcome, acked
from .protocol import MAX_CONCURRENCY, Word
from .reserving import Reserving, Terms
from .runtime import drive

#: Pause while Redis is unavailable.
REST_S = 0.5
#: Minimum pause between attempts to extend a lease.
PAUSE_S = 0.02

log = logging.getLogger("delayq")


@dataclass
class _Lease:
    """A lease on the local clock, counted from the time of sending: Redis never ends the lease earlier."""

    delivery: Leased
    length_s: float
    sent_s: float
    #: Time of the next extension; infinite after a loss.
    due_s: float

    @property
    def lasts(self) -> bool:
        return time.monotonic() < self.sent_s + self.length_s


class Consuming:
    """The common part of all consumers and workers."""

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

    @property
    def max_payload_bytes(self) -> int:
        return self._client.max_payload_bytes

    async def next(self) -> AsyncDelivery | None:
        """Returns the next message, once concurrency allows; None after a stop."""
        async with self._turn:  # one reserves for all that wait
            while not self._ready and not self.is_stopped:
                free = self._terms.max_messages - len(self._held)
                if free > 0:
                    await self._fetch(free)
                else:
                    await self._freed.wait(None)
            return None if self.is_stopped else self._ready.popleft()

    async def settle(self, delivery: Leased, item: Item) -> Outcome:
        """Settles a delivery, even if the caller is cancelled. While Redis is unavailable, retries until the lease expires."""
        return await self._runtime.shielded(self._settle(delivery, item))

    async def _settle(self, delivery: Leased, item: Item) -> Outcome:
        """Retries until an answer, or until the lease expires."""
        is_lost = False
        while True:
            (answer,) = await self._asked([item])
            lease = self._held.get(delivery.receipt)
            lasts = lease is not None and lease.lasts
            if isinstance(answer, Answer):
                outcome = Outcome.parse(answer.raw.decode(), item.id, answer.shard, item.verb)
                if item.verb == "put":
                    outcome = acked(outcome, delivery.id)
                break
            if not lasts or not is_outage(answer):
                self._end(delivery.receipt)
                raise answer
            is_lost = True
            await self._runtime.bell().wait(REST_S)
        self._end(delivery.receipt)
        # A lease that has not expired can only have ended by the attempt whose answer was lost.
        if is_lost and lasts and outcome.word is Word.EXPIRED and outcome.verb in ("ack", "bury"):
            return replace(outcome, word=Word.DELIVERED if outcome.verb == "ack" else Word.BURIED)
        return outcome

    async def prolong(self, delivery: Leased, item: Item) -> Outcome:
        """Extends the lease of one delivery, in addition to the automatic extensions."""
        sent_s = time.monotonic()
        (answer,) = await self._asked([item])
        if isinstance(answer, Exception):
            raise answer
        self._note_extended(delivery.receipt, answer, sent_s)
        return Outcome.parse(answer.raw.decode(), item.id, answer.shard, item.verb)

    async def check(self) -> None:
        """Raises a fault of the deployment. An outage of Redis raises nothing, since consumers wait."""
        try:
            await self._client._learn()
        except Exception as fault:
            if not is_outage(fault):
                raise

    def stop_taking(self) -> None:
        """Stops reserving and wakes waiting callers."""
        self.is_stopped = True
        self._freed.ring()
        self._renew.ring()
        self._client._watch.wake(self._terms.topics)

    async def stop(self) -> None:
        """Stops reserving, and releases unsettled messages with the attempt kept, even if the caller is cancelled."""
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
                log.warning("%s was not released, and returns when its lease expires: %s", item.id, answer)

    async def _asked(self, items: Sequence[Item]) -> list[Answer | Exception]:
        """Returns the answer to each item, or the error."""
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
                log.warning("cannot reserve; retrying: %s", fault)
            self._is_failing = True
            await self._runtime.bell().wait(REST_S)
            return
        self._is_failing = False
        if not self._keep(found):
            await self._runtime.shielded(self._give_back([delivery.receipt for delivery in found]))

    def _keep(self, found: Sequence[Leased]) -> bool:
        """Starts to keep leases; false after a stop, since the leases would never end."""
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
        """Stops keeping a lease."""
        with self._mutex:
            self._held.pop(receipt, None)
        self._freed.ring()

    async def _keep_alive(self) -> None:
        """Extends each lease every third of its length, until the stop."""
        while self._held or not self.is_stopped:
            try:
                await self._extend_due()
            except Exception:
                log.exception("leases were not extended; retrying")
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
            log.warning("the lease of %s was not extended; retrying: %s", receipt.id, answer)
            lease.due_s = time.monotonic() + max(lease.length_s / 12, PAUSE_S)


class AsyncConsumer:
    """An asynchronous iterator over messages.

        async with AsyncConsumer(client, ["orders"], concurrency=10) as consumer:
            async for delivery in consumer:
                ...
                await delivery.ack()

    At most `concurrency` messages are unsettled, and each lease is extended until settlement. The end of `async with` stops
    reserving and releases unsettled messages with the attempt kept.
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
        """Ends the iteration, and releases unsettled messages with the attempt kept. May be called concurrently."""
        await self._consuming.stop()

    async def __aenter__(self) -> "AsyncConsumer":
        return self

    async def __aexit__(self, *fault: object) -> None:
        await self.stop()


class Consumer:
    """An iterator over messages; any thread may settle a message.

        with Consumer(client, ["orders"], concurrency=10) as consumer:
            for delivery in consumer:
                ...
                delivery.ack()

    At most `concurrency` messages are unsettled, and each lease is extended until settlement. The end of `with` stops reserving
    and releases unsettled messages with the attempt kept.
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
        """Ends the iteration, and releases unsettled messages with the attempt kept. May be called concurrently."""
        drive(self._consuming.stop())

    def __enter__(self) -> "Consumer":
        return self

    def __exit__(self, *fault: object) -> None:
        self.stop()
