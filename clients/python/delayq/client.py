"""The clients: what a producer and a worker do with messages, over `redis.asyncio.Redis` or `redis.Redis`."""

import random
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from redis import Redis
from redis.asyncio import Redis as AsyncRedis
from redis.exceptions import ConnectionError as LostConnection

from .calls import Arg, Calls, Item, places_of, settled
from .delivery import Delivery, Receipt, deliveries
from .message import MAX_PAYLOAD_BYTES, Message
from .names import InvalidMessage, generate_id, generated, id_bytes, name
from .outcome import Outcome

#: How often a reserve that waits looks without having been woken.
LOOK_S = 1.0
Ms = int | None
P = ParamSpec("P")
R = TypeVar("R")


class AsyncClient(Calls):
    """A deployment of delayq. All verbs are safe to repeat; see the README for what a repeat does."""

    def __init__(self, redis: AsyncRedis, namespace: str = "dq", most_payload_bytes: int = 262144) -> None:
        super().__init__(redis, namespace)
        self.most_payload_bytes = min(most_payload_bytes, MAX_PAYLOAD_BYTES)
        self._turn = random.getrandbits(32)
        self._dictionaries: dict[int, bytes] = {}

    async def put(self, message: Message) -> Outcome:
        """Puts one message."""
        return (await self.put_many([message]))[0]

    async def put_many(self, messages: Sequence[Message]) -> list[Outcome]:
        """Puts many messages: one answer each, in order."""
        self._turn += 1
        place = self._turn % await self._learn()
        tried = any(message.first_tried_ms is not None for message in messages)
        ahead_ms = await self._ahead_ms() if tried else 0
        items = [self._message(message, place, ahead_ms) for message in messages]
        return await self._each("put", items)

    async def cancel(self, topic: str, id: str, group: str | None = None) -> Outcome:
        """Keeps a message from being delivered. An own id that was put with a group is found by both."""
        return (await self._each("cancel", [_item(topic, id, group)]))[0]

    async def reschedule(
        self, topic: str, id: str, group: str | None = None, *,
        at_ms: Ms = None, after_ms: Ms = None, by_ms: Ms = None, expected_ms: Ms = None,
    ) -> Outcome:
        """Changes when a pending message is due: to a time, a delay from now, or by a difference. With
        `expected_ms` only where it is due then until now; a difference needs it: a repeat moves nothing twice."""
        said = (at_ms, "{}"), (after_ms, "+{}"), (by_ms, "by {:+}")
        due = [form.format(ms) for ms, form in said if ms is not None]
        if len(due) != 1 or by_ms is not None and expected_ms is None:
            raise InvalidMessage("give a time, a delay, or a difference to the due time that is expected")
        return (await self._each("reschedule", [_item(topic, id, group, due[0], expected_ms)]))[0]

    async def reserve(
        self, topics: Sequence[str], most: int = 1, lease_ms: Ms = None, wait_ms: int = 0
    ) -> list[Delivery]:
        """Takes ready messages under a lease, from the first topic that has any: those of the first shard that
        has any, beginning one further each time. Where there is none, waits for one at most this long."""
        args: list[Arg] = [most, 0, lease_ms, *(name("topic", topic) for topic in topics)]
        until, heard, listener = time.monotonic() + wait_ms / 1000, None, None
        try:
            while True:
                self._turn += 1
                back_s, shards = LOOK_S, await self._learn()
                for shard in [heard] if heard is not None else range(self._turn, self._turn + shards):
                    reply = await self._call("reserve", shard % shards, args)
                    if found := await self._readable(list(deliveries(shard % shards, topics, reply[6:]))):
                        return found
                    back_s = min(back_s, reply[1] / 1000 if isinstance(reply[1], int) else LOOK_S)
                if (left := until - time.monotonic()) <= 0:
                    return []
                listener = listener or await self._listening(shards)
                heard = await self._heard(listener, min(left, back_s))
        finally:
            if listener:
                await settled(getattr(listener, "aclose", listener.close)())

    async def extend(self, receipts: Sequence[Receipt], lease_ms: Ms = None) -> list[Outcome]:
        """Gives leases more time, from now."""
        return await self._settle("extend", receipts, lease_ms)

    async def ack(self, receipts: Sequence[Receipt]) -> list[Outcome]:
        """Ends messages that were delivered."""
        return await self._settle("ack", receipts)

    async def release(
        self, receipts: Sequence[Receipt], delay_ms: Ms = None, keep_attempt: bool = False, reason: str = ""
    ) -> list[Outcome]:
        """Gives messages back that were not delivered: after a delay, or by their back-off."""
        return await self._settle("release", receipts, delay_ms, "keep" * keep_attempt, reason)

    async def bury(self, receipts: Sequence[Receipt], reason: str) -> list[Outcome]:
        """Moves messages that can never be delivered to the dead letters."""
        return await self._settle("bury", receipts, reason)

    def _message(self, message: Message, place: int, ahead_ms: int) -> Item:
        """What a put says of a message. Generated ids go to the shards in turn, or to their group's."""
        places = places_of(place if message.group is None else message.group.encode(), self._counts)
        id = generate_id(places[0]) if message.id is None else message.id
        raw = id_bytes(id)
        if message.group is not None and generated(raw) and places_of(raw, ())[0] not in places:
            raise InvalidMessage(f"{id} was generated for another shard than its group's")
        due = f"+{message.after_ms}" if message.at_ms is None else message.at_ms
        envelope = message.envelope(not generated(raw), self.most_payload_bytes)
        return _item(message.topic, id, message.group, due, message.options(ahead_ms), envelope)

    async def _ahead_ms(self) -> int:
        """How far Redis's clock is ahead of this host's: a little too far, rather than not far enough."""
        asked_ms = time.time_ns() // 1_000_000
        seconds, us = await self._command("TIME")
        return int(seconds) * 1000 + int(us) // 1000 + 1 - asked_ms

    async def _settle(self, verb: str, receipts: Sequence[Receipt], *args: Arg) -> list[Outcome]:
        return await self._each(verb, [Item(receipt.shard, (), (receipt.raw, *args)) for receipt in receipts])

    async def _listening(self, shards: int) -> Any:
        """A subscription to the channels on which shards say that a ready queue is not empty any more."""
        listener = self.redis.pubsub()
        # redis-py before 8 has no method for it with asyncio.
        subscribe = getattr(listener, "ssubscribe", partial(listener.execute_command, "SSUBSCRIBE"))
        await settled(subscribe(*(f"{{{self.namespace}:{shard}}}:ready" for shard in range(shards))))
        return listener

    async def _heard(self, listener: Any, timeout_s: float) -> int | None:
        """The shard that is heard next: each is heard first when it begins to be listened to."""
        heard = None
        with suppress(LostConnection):  # it is made anew; what was said meanwhile is looked for
            heard = await settled(listener.get_message(timeout=timeout_s))
        return int(str(heard["channel"]).partition(":")[2].partition("}")[0]) if heard else None

    async def _readable(self, found: list[tuple[Delivery, bytes]]) -> list[Delivery]:
        """Reads envelopes, and buries those that nobody can read: they keep no other from being delivered."""
        readable = []
        for delivery, stored in found:
            try:
                if delivery.read(stored):
                    delivery.payload = await self._restored(delivery.payload)
                readable.append(delivery)
            except ValueError as fault:
                await self._settle("bury", [delivery.receipt], str(fault))
            except ImportError:  # others can restore them
                await self._settle("release", [one.receipt for one, _ in found], 1000, "keep", "")
                raise
        return readable

    async def _restored(self, frame: bytes) -> bytes:
        """A compressed payload as it was put."""
        import zstandard  # brought by the extra `zstd`: only topics with a codec need it

        try:
            told = zstandard.get_frame_parameters(frame)
            if MAX_PAYLOAD_BYTES < told.content_size != zstandard.CONTENTSIZE_UNKNOWN:
                raise ValueError(f"no payload has {told.content_size} bytes")
            if told.dict_id and told.dict_id not in self._dictionaries:
                self._dictionaries[told.dict_id] = await self._call("dictionary", 0, [told.dict_id, ""])
            dictionary = zstandard.ZstdCompressionDict(self._dictionaries.get(told.dict_id, b""))
            return zstandard.ZstdDecompressor(dictionary).decompress(frame, max_output_size=MAX_PAYLOAD_BYTES)
        except zstandard.ZstdError as fault:
            raise ValueError(f"the payload cannot be restored: {fault}") from None


def blocking(
    verb: Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate["Client", P], R]:
    """The same verb over a connection that blocks: nothing is awaited, so its coroutine ends in one step."""

    @wraps(verb)
    def method(self: "Client", /, *args: P.args, **options: P.kwargs) -> R:
        try:
            verb(self._client, *args, **options).send(None)
        except StopIteration as end:
            return cast(R, end.value)
        raise TypeError("the blocking client needs a blocking connection")

    return method


class Client:
    """The blocking client. Threads may share it, as they may its connection."""

    def __init__(self, redis: Redis, namespace: str = "dq", most_payload_bytes: int = 262144) -> None:
        self.redis, self._client = redis, AsyncClient(cast(AsyncRedis, redis), namespace, most_payload_bytes)

    put, put_many = blocking(AsyncClient.put), blocking(AsyncClient.put_many)
    cancel, reschedule = blocking(AsyncClient.cancel), blocking(AsyncClient.reschedule)
    reserve, extend = blocking(AsyncClient.reserve), blocking(AsyncClient.extend)
    ack, release, bury = blocking(AsyncClient.ack), blocking(AsyncClient.release), blocking(AsyncClient.bury)


def _item(topic: str, id: str, group: str | None, *args: Arg) -> Item:
    """What is said of a message by name. A generated id has its shard, others go by group, or themselves."""
    raw = id_bytes(id)
    place = raw if group is None or generated(raw) else name("group", group).encode()
    return Item(place, (name("topic", topic),), (raw, *args), id)
