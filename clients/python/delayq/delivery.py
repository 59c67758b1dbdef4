"""Deliveries: messages under a lease."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Protocol

from .checks import flag, shown, whole
from .envelope import Stored
from .errors import Bury, InvalidArgument
from .items import Arg, Item
from .message import Message
from .names import generate_id, generated, id_and_group, stored_id
from .outcome import Outcome
from .protocol import MAX_ATTEMPTS, MAX_SHARDS, State
from .reasons import reason_of, reason_text
from .runtime import blocking
from .times import as_datetime, lease_ms, maybe_span_ms


class Receipt(NamedTuple):
    """The right to settle one delivery of a message."""

    shard: int
    raw: bytes

    @property
    def id(self) -> str:
        """The message's id."""
        return id_and_group(self.raw[self.raw.index(b":") + 1 : -4])[0]

    def item(self, verb: str, *args: Arg) -> Item:
        """Returns an item that settles the delivery."""
        whole("the shard of a receipt", self.shard, 0, MAX_SHARDS - 1)
        if not isinstance(self.raw, bytes) or b":" not in self.raw[:-4]:
            raise InvalidArgument(f"the bytes of a receipt are as a reserve gave them, not {shown(self.raw)}")
        return Item(verb, self.shard, (), (self.raw, *args), self.id)


class Holder(Protocol):
    """Settles deliveries and extends leases."""

    @property
    def max_payload_bytes(self) -> int: ...

    async def settle(self, delivery: "Leased", item: Item) -> Outcome: ...

    async def prolong(self, delivery: "Leased", item: Item) -> Outcome: ...


@dataclass
class Leased(Stored):
    """A message under a lease. `attempt` and `delivery` include this delivery."""

    receipt: Receipt = Receipt(0, b"")
    #: The time at which the message became ready.
    ready_us: int = 0
    lease_end_ms: int = 0
    #: The original length of the lease.
    lease_ms: int = 0
    #: The time of the reserve on the local monotonic clock.
    sent_s: float = field(default=0.0, repr=False)
    #: The message was acked, released or buried.
    is_settled: bool = False
    #: The lease was lost or the message cancelled: stop working. Updated only by workers and consumers, which extend leases.
    lost: bool = False
    _holder: Holder | None = field(default=None, repr=False, compare=False)

    @property
    def lease_end(self) -> datetime:
        return as_datetime(self.lease_end_ms)

    @property
    def _core(self) -> "Leased":
        return self

    def read(self, stored: bytes) -> bool:
        is_compressed = super().read(stored)
        self.attempt, self.delivery = min(self.attempt + 1, MAX_ATTEMPTS), self.delivery + 1
        self.state, self.at_ms = State.LEASED, self.lease_end_ms
        return is_compressed

    async def _settle(self, item: Item) -> Outcome:
        assert self._holder is not None, "a delivery comes from a reserve"
        self.is_settled = True  # also where its caller gives up: it is carried out
        try:
            return await self._holder.settle(self, item)
        except Exception:
            self.is_settled = False
            raise


class AsyncDelivery(Leased):
    """A message under a lease. An unsettled message returns when the lease expires."""

    async def ack(self, next: Message | None = None) -> Outcome:
        """Finishes a delivered message, and puts the next message in the same step: both or neither. The next message has no id,
        and the group of this message or none; or it has topic, id and group of this message, and takes its place. It is not put if
        this message was cancelled meanwhile."""
        return await self._settle(self.receipt.item("ack") if next is None else next_item(self, next))

    async def release(
        self, delay: timedelta | None = None, *, keep_attempt: bool = False, reason: str = ""
    ) -> Outcome:
        """Returns the message to the queue, after a delay or the back-off. After the last attempt, the message becomes a dead
        letter with the reason."""
        return await self._settle(release_item(self.receipt, delay, keep_attempt, reason))

    async def bury(self, reason: str) -> Outcome:
        """Moves an undeliverable message to the dead letters."""
        return await self._settle(bury_item(self.receipt, reason))

    async def extend(self, lease: timedelta | None = None) -> Outcome:
        """Extends the lease from now."""
        assert self._holder is not None, "a delivery comes from a reserve"
        return await self._holder.prolong(self, self.receipt.item("extend", lease_ms(lease)))


class Delivery(Leased):
    """A message under a lease. An unsettled message returns when the lease expires."""

    ack = blocking(AsyncDelivery.ack)
    release = blocking(AsyncDelivery.release)
    bury = blocking(AsyncDelivery.bury)
    extend = blocking(AsyncDelivery.extend)


def next_item(delivery: Leased, next: Message) -> Item:
    """Returns an item that acks a delivery by the put of its next message, in the shard of the delivery."""
    if not isinstance(next, Message):
        raise InvalidArgument(f"a next message is a Message, not {shown(next)}")
    if next.options(0):
        raise InvalidArgument("a next message replaces only the message before it, and needs no first_tried: the receipt recognises a repeat")
    if next.id is not None and (next.topic, next.id, next.group) != (delivery.topic, delivery.id, delivery.group):
        raise InvalidArgument(
            "a next message has no id, or the id, the group and the topic of the message before it: put any other message, and then ack"
        )
    if next.group not in (None, delivery.group):
        raise InvalidArgument("a next message has the group of the message before it, or none: put a message of another group, and then ack")
    assert delivery._holder is not None, "a delivery comes from a reserve"
    shard, raw = delivery.receipt
    id = stored_id(generate_id(shard) if next.id is None else next.id, next.group)
    envelope = next.envelope(not generated(id), delivery._holder.max_payload_bytes)
    return Item("put", shard, (next.topic,), (id, next.due(), f"ack={raw.hex()}", envelope), delivery.id)


def release_item(receipt: Receipt, delay: timedelta | None, keep_attempt: bool = False, reason: str = "") -> Item:
    keep = "keep" if flag("keep_attempt", keep_attempt) else ""
    return receipt.item("release", maybe_span_ms("delay", delay), keep, reason_text(reason))


def bury_item(receipt: Receipt, reason: str) -> Item:
    return receipt.item("bury", reason_text(reason))


def settling_item(delivery: Leased, returned: object, fault: BaseException | None) -> tuple[Item, BaseException | None]:
    """Returns the item that settles a delivery whose handler returned, or raised this; and the fault, also of a next message that
    breaks a rule."""
    receipt = delivery.receipt
    if fault is None and isinstance(returned, Message):
        try:
            return next_item(delivery, returned), None
        except InvalidArgument as why:
            fault = why
    if fault is None:
        return receipt.item("ack"), None
    if isinstance(fault, Bury):
        return bury_item(receipt, reason_of(fault)), fault
    return release_item(receipt, None, reason=reason_of(fault)), fault


def deliveries(
    made_by: type[Any], shard: int, topics: Sequence[str], reply: Sequence[Any]
) -> Iterator[tuple[Any, bytes]]:
    """Parses the deliveries in the reply of a reserve, each with its envelope."""
    now_ms, rest = reply[0] // 1000, iter(reply[6:])
    for place in rest:
        lease_end_ms, count = next(rest), next(rest)
        for _ in range(count):
            ready_us, raw, stored = next(rest), next(rest), next(rest)
            receipt = Receipt(shard, raw)
            delivery = made_by(topics[place - 1], receipt.id, shard, receipt=receipt, ready_us=ready_us)
            delivery.lease_end_ms, delivery.lease_ms = lease_end_ms, max(lease_end_ms - now_ms, 1)
            yield delivery, stored
