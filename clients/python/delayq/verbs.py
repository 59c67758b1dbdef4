"""The verbs: what a producer and a worker do with messages."""

import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from .calls import Arg, Calls, Connection, Item, Steps, places_of, verb
from .delivery import Delivery, EnvelopeError, Receipt, deliveries
from .message import MAX_PAYLOAD_BYTES, Message
from .names import InvalidMessage, generate_id, generated, id_bytes, id_text, name
from .outcome import Outcome, Put

#: How often a reserve that waits looks without having been woken.
LOOK_S = 1.0


class Verbs(Calls[Connection]):
    """A deployment of delayq. All verbs are safe to repeat; see the README for what a repeat does."""

    @verb
    def put(self, message: Message) -> Steps[Put]:
        """Puts one message."""
        return (yield from self._put([message]))[0]

    @verb
    def put_many(self, messages: Sequence[Message]) -> Steps[list[Put]]:
        """Puts many messages: one answer each, in order."""
        return (yield from self._put(messages))

    @verb
    def cancel(self, topic: str, id: str, group: str | None = None) -> Steps[Outcome]:
        """Keeps a message from being delivered. An own id that was put with a group is found by both."""
        return (yield from self._outcomes("cancel", [_item(topic, id, group)]))[0]

    @verb
    def reschedule(
        self, topic: str, id: str, group: str | None = None, *, at_ms: int | None = None, after_ms: int | None = None,
        by_ms: int | None = None, expected_ms: int | None = None,
    ) -> Steps[Outcome]:
        """Changes when a pending message is due: to a time, a delay from now, or by a difference. With `expected_ms`
        only where it is due then until now; a difference needs it, so that a repeat moves nothing twice."""
        ways = [(at_ms, ""), (after_ms, "+"), (by_ms, "by +" if (by_ms or 0) >= 0 else "by ")]
        due = [f"{sign}{ms}" for ms, sign in ways if ms is not None]
        if len(due) != 1 or (at_ms or after_ms or 0) < 0 or by_ms is not None and expected_ms is None:
            raise InvalidMessage("give a time, a delay from now, or a difference and the due time that is expected")
        item = _item(topic, id, group, due[0], "" if expected_ms is None else expected_ms)
        return (yield from self._outcomes("reschedule", [item]))[0]

    @verb
    def reserve(
        self, topics: Sequence[str], most: int = 1, lease_ms: int | None = None, wait_ms: int = 0
    ) -> Steps[list[Delivery]]:
        """Takes ready messages under a lease, from the first topic that has any: those of the first shard that has any,
        beginning one further each time. Where there is none, waits for one at most this long."""
        shards = yield from self._learn()
        args: list[Arg] = [most, 0, "" if lease_ms is None else lease_ms, *(name("topic", topic) for topic in topics)]
        until = time.monotonic() + wait_ms / 1000
        found, back_s = yield from self._look(topics, args)
        if not found and wait_ms > 0:
            channels = [f"{{{self.namespace}:{shard}}}:ready" for shard in range(shards)]
            # redis-py before 8 has no method for it with asyncio.
            yield lambda _, it: getattr(it, "ssubscribe", partial(it.execute_command, "SSUBSCRIBE"))(*channels)
        while not found and (left := until - time.monotonic()) > 0:
            rest = max(0, min(left, back_s, LOOK_S))
            heard = yield lambda _, listener: listener.get_message(timeout=rest)  # noqa: B023
            # The first thing heard of each shard is that it is listened to: it is looked at then, too.
            shard = int(str(heard["channel"]).partition(":")[2].partition("}")[0]) if heard else None
            found, back_s = yield from self._look(topics, args, shard)
        return found

    @verb
    def extend(self, receipts: Sequence[Receipt], lease_ms: int | None = None) -> Steps[list[Outcome]]:
        """Gives leases more time, from now."""
        return (yield from self._settle("extend", receipts, "" if lease_ms is None else lease_ms))

    @verb
    def ack(self, receipts: Sequence[Receipt]) -> Steps[list[Outcome]]:
        """Ends messages that were delivered."""
        return (yield from self._settle("ack", receipts))

    @verb
    def release(
        self, receipts: Sequence[Receipt], delay_ms: int | None = None, keep_attempt: bool = False, reason: str = ""
    ) -> Steps[list[Outcome]]:
        """Gives messages back that were not delivered: after a delay, or by their back-off."""
        delay = "" if delay_ms is None else delay_ms
        return (yield from self._settle("release", receipts, delay, "keep" * keep_attempt, reason))

    @verb
    def bury(self, receipts: Sequence[Receipt], reason: str) -> Steps[list[Outcome]]:
        """Moves messages that can never be delivered to the dead letters."""
        return (yield from self._settle("bury", receipts, reason))

    def _put(self, messages: Sequence[Message]) -> Steps[list[Put]]:
        yield from self._learn()
        self._turn += 1
        items = [self._message(message) for message in messages]
        puts = []
        for item, message, (text, shard, now_us) in zip(items, messages, (yield from self._each("put", items)), strict=True):
            due_ms = message.at_ms or now_us // 1000 + message.after_ms
            outcome = Outcome.parse(f"{text} {due_ms}" if text in ("stored", "ready") else text)
            puts.append(Put(id_text(item.id), shard, outcome))
        return puts

    def _message(self, message: Message) -> Item:
        """What a put says of a message. Generated ids go to the shards in turn, put by put, or to their groups'."""
        place = self._turn % self._counts[-1] if message.group is None else message.group.encode()
        places = places_of(place, self._counts)
        id = generate_id(places[0]) if message.id is None else message.id
        envelope = message.envelope(not generated(id_bytes(id)), self.most_payload_bytes)
        due = f"+{message.after_ms}" if message.at_ms is None else message.at_ms
        tried = "" if message.first_tried_ms is None else f" tried={message.first_tried_ms}"
        item = _item(message.topic, id, message.group, due, "replace" * message.replace + tried, envelope)
        if message.group is not None and generated(item.id) and places_of(item.id, ())[0] not in places:
            raise InvalidMessage(f"{id} was generated for another shard than its group's")
        return item

    def _outcomes(self, verb: str, items: Sequence[Item]) -> Steps[list[Outcome]]:
        return [Outcome.parse(text) for text, _, _ in (yield from self._each(verb, items))]

    def _settle(self, verb: str, receipts: Sequence[Receipt], *args: Arg) -> Steps[list[Outcome]]:
        return self._outcomes(verb, [Item(receipt.shard, (), receipt.raw, args) for receipt in receipts])

    def _look(self, topics: Sequence[str], args: list[Arg], shard: int | None = None) -> Steps[tuple[list[Delivery], float]]:
        """Reserves from this shard, or the first that has any; and says in how many seconds to look again at the latest."""
        back_s, shards = LOOK_S, self._counts[-1]
        self._turn += 1
        for asked in [(self._turn + n) % shards for n in range(shards)] if shard is None else [shard]:
            reply = yield from self._one("reserve", asked, args)
            back_s = min(back_s, reply[1] / 1000 if isinstance(reply[1], int) else LOOK_S)
            if found := (yield from self._readable(list(deliveries(asked, topics, reply[6:])))):
                return found, back_s
        return [], back_s

    def _readable(self, found: list[tuple[Delivery, bytes]]) -> Steps[list[Delivery]]:
        """Reads envelopes, and buries those that nobody can read: they keep no other message from being delivered."""
        readable = []
        for delivery, stored in found:
            try:
                if delivery.read(stored):
                    delivery.payload = yield from self._restored(delivery.payload)
                readable.append(delivery)
            except ValueError as fault:
                yield from self._settle("bury", [delivery.receipt], str(fault))
            except ImportError:  # others can restore them
                yield from self._settle("release", [one.receipt for one, _ in found], 1000, "keep", "")
                raise
        return readable

    def _restored(self, frame: bytes) -> Steps[bytes]:
        """A compressed payload as it was put."""
        import zstandard  # brought by the extra `zstd`: only topics with a codec need it

        try:
            told = zstandard.get_frame_parameters(frame)
            if MAX_PAYLOAD_BYTES < told.content_size != zstandard.CONTENTSIZE_UNKNOWN:
                raise EnvelopeError(f"no payload has {told.content_size} bytes")
            if told.dict_id and told.dict_id not in self._dictionaries:
                self._dictionaries[told.dict_id] = yield from self._one("dictionary", 0, [told.dict_id, ""])
            dictionary = zstandard.ZstdCompressionDict(self._dictionaries.get(told.dict_id, b""))
            return zstandard.ZstdDecompressor(dictionary).decompress(frame, max_output_size=MAX_PAYLOAD_BYTES)
        except zstandard.ZstdError as fault:
            raise EnvelopeError(f"the payload cannot be restored: {fault}") from None


def _item(topic: str, id: str, group: str | None, *args: Arg) -> Item:
    """What is said of a message by its name. A generated id says its shard, an own one goes by its group, or itself."""
    raw = id_bytes(id)
    place = raw if group is None or generated(raw) else name("group", group).encode()
    return Item(place, (name("topic", topic),), raw, args)
