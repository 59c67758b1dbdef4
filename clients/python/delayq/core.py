"""The core of both clients: the calls that each verb makes, and what their replies say.

A verb is a generator that yields the calls of one round trip and is sent their replies: it knows no connection.
"""

from __future__ import annotations

import random
import time
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, TypeVar

from redis.exceptions import NoScriptError, ResponseError

from .envelope import Envelope, EnvelopeError
from .ids import InvalidMessage, MessageId, namespace_name, shard_of_name, topic_name
from .message import MAX_PAYLOAD_BYTES, MAX_TIME_MS, Message
from .scripts import script

LAYOUT = 1
MOST_IDS = 500
MOST_BYTES = 4 * 1024 * 1024


Args = list[bytes | str | int]


class Call(NamedTuple):
    """One call of a script; its arguments follow the layout."""

    verb: str
    shard: int
    args: Args


@dataclass(frozen=True)
class Answer:
    """What a script answered for one message: a word, and what belongs to it. docs/protocol.md lists the words."""

    word: str
    #: When it is due; of what is over, when it ended; of a lease, its end. Ms since the epoch, on Redis's clock.
    time_ms: int | None = None
    #: When it was due before.
    old_ms: int | None = None
    #: The state or the outcome that the answer names.
    state: str | None = None
    #: Why it was refused or failed.
    why: str | None = None
    #: A cancel came while it was leased: it will not be tried again.
    doomed: bool = False

    @classmethod
    def parse(cls, text: str) -> Answer:
        word, _, rest = text.partition(" ")
        words = rest.split(" ")
        if word.isdigit():
            return cls("extended", time_ms=int(word))
        if word in ("refused", "failed"):
            return cls(word, why=rest)
        if word in ("exists", "conflict", "finished"):
            return cls(word, state=words[0], time_ms=int(words[1]))
        if word == "cancelled" and rest:
            return cls("extended", time_ms=int(rest), doomed=True)
        if word in ("delayed", "ready") and len(words) == 2:
            return cls(word, old_ms=int(words[0]), time_ms=int(words[1]))
        return cls(word, time_ms=int(rest) if rest else None)


@dataclass(frozen=True)
class Put:
    """What became of a put, and what finds the message again."""

    id: MessageId
    shard: int
    answer: Answer

    @property
    def accepted(self) -> bool:
        """Whether the message is kept, by this put or an earlier one."""
        return self.answer.word in ("stored", "ready", "exists")


@dataclass(frozen=True)
class Receipt:
    """The right to settle one delivery of one message."""

    shard: int
    raw: bytes


@dataclass(frozen=True)
class Delivery:
    """A message under lease; its attempt and delivery count this one."""

    receipt: Receipt
    topic: str
    id: MessageId
    ready_us: int
    lease_end_ms: int
    envelope: Envelope

    @property
    def payload(self) -> bytes:
        return self.envelope.payload


@dataclass(frozen=True)
class Reserved:
    """What a reserve found, and when to come back without being woken: at once (0), later, or no reason to."""

    deliveries: list[Delivery]
    wait_ms: int | None
    #: Leased messages whose envelope cannot be read, and why: bury them.
    broken: list[tuple[Receipt, str]]


Reply = Any
R = TypeVar("R")
Steps = Generator[list[Call], list[Reply], R]


class Core:
    """The deployment, and each verb as steps."""

    def __init__(self, namespace: str, shards: int, most_payload_bytes: int) -> None:
        if not 1 <= shards <= 4096:
            raise ValueError(f"a deployment has 1 to 4096 shards, not {shards}")
        self.namespace = namespace_name(namespace)
        self.shards = shards
        self.most_payload_bytes = min(most_payload_bytes, MAX_PAYLOAD_BYTES)
        self._turn = random.randrange(shards)

    def command(self, call: Call) -> Args:
        base = f"{{{self.namespace}:{call.shard}}}:"
        return ["EVALSHA", script(call.verb).sha, 2, f"{base}meta", f"{base}never", LAYOUT, *call.args]

    def next_shard(self) -> int:
        self._turn = (self._turn + 1) % self.shards
        return self._turn

    def generate_id(self, group: str | None = None) -> MessageId:
        shard = self.next_shard() if group is None else shard_of_name(group, self.shards)
        return MessageId.generate(shard, time.time_ns() // 1_000_000)

    def _id_of(self, message: Message) -> MessageId:
        if message.id is None:
            return self.generate_id(message.group)
        return MessageId.own(message.id) if isinstance(message.id, str) else message.id

    def put_steps(self, messages: Sequence[Message]) -> Steps[list[Put]]:
        placed: dict[tuple[int, str], list[tuple[int, MessageId, bytes]]] = {}
        for i, message in enumerate(messages):
            message.check(self.most_payload_bytes)
            message_id = self._id_of(message)
            shard = message_id.shard(message.group, self.shards)
            if message.group is not None and shard != shard_of_name(message.group, self.shards):
                raise InvalidMessage(f"{message_id} was generated for another shard than its group's")
            item = (i, message_id, message.envelope(message_id))
            placed.setdefault((shard, message.topic), []).append(item)
        puts: dict[int, Put] = {}
        for (shard, topic), items in placed.items():
            for batch in _batches(items):
                args: Args = [topic]
                for i, message_id, envelope in batch:
                    args += [message_id.raw, messages[i].due, messages[i].options, envelope]
                [(now_us, *answers)] = yield [Call("put", shard, args)]
                for (i, message_id, _), answer in zip(batch, answers, strict=True):
                    puts[i] = Put(message_id, shard, _put_answer(messages[i], now_us, answer.decode()))
        return [puts[i] for i in range(len(messages))]

    def cancel_steps(self, topic: str, id: str | MessageId, group: str | None) -> Steps[Answer]:
        return (yield from self._change("cancel", topic, id, group, []))

    def reschedule_steps(self, topic: str, id: str | MessageId, change: Change, group: str | None) -> Steps[Answer]:
        return (yield from self._change("reschedule", topic, id, group, change.arguments()))

    def _change(self, verb: str, topic: str, id: str | MessageId, group: str | None, args: Args) -> Steps[Answer]:
        target = MessageId.own(id) if isinstance(id, str) else id
        call = Call(verb, target.shard(group, self.shards), [topic_name(topic), target.raw, *args])
        [[answer]] = yield [call]
        return Answer.parse(answer.decode())

    def reserve_steps(
        self, topics: Sequence[str], most: int, lease_ms: int | None, shard: int | None
    ) -> Steps[Reserved]:
        """From the first shard that has any, beginning behind the one that was asked last."""
        args: Args = [most, 0, "" if lease_ms is None else lease_ms, *map(topic_name, topics)]
        waits: list[int] = []
        for _ in range(self.shards if shard is None else 1):
            asked = self.next_shard() if shard is None else shard
            [reply] = yield [Call("reserve", asked, args)]
            if isinstance(reply[1], int):
                waits.append(reply[1])
            deliveries, broken = _deliveries(asked, topics, reply[6:])
            if deliveries or broken:
                return Reserved(deliveries, min(waits, default=None), broken)
        return Reserved([], min(waits, default=None), [])

    def extend_steps(self, receipts: Sequence[Receipt], lease_ms: int | None) -> Steps[list[Answer]]:
        return self._settle("extend", receipts, ["" if lease_ms is None else lease_ms])

    def ack_steps(self, receipts: Sequence[Receipt]) -> Steps[list[Answer]]:
        return self._settle("ack", receipts, [])

    def release_steps(
        self, receipts: Sequence[Receipt], delay_ms: int | None, keep_attempt: bool, reason: str
    ) -> Steps[list[Answer]]:
        keep = "keep" if keep_attempt else ""
        return self._settle("release", receipts, ["" if delay_ms is None else delay_ms, keep, reason])

    def bury_steps(self, receipts: Sequence[Receipt], reason: str) -> Steps[list[Answer]]:
        return self._settle("bury", receipts, [reason])

    def _settle(self, verb: str, receipts: Sequence[Receipt], args: Args) -> Steps[list[Answer]]:
        """One call a shard and 500 receipts, all in one round trip."""
        shards: dict[int, list[int]] = {}
        for i, receipt in enumerate(receipts):
            shards.setdefault(receipt.shard, []).append(i)
        parts = [(shard, some[at : at + MOST_IDS]) for shard, some in shards.items()
                 for at in range(0, len(some), MOST_IDS)]
        replies = yield [Call(verb, shard, [arg for i in some for arg in (receipts[i].raw, *args)])
                         for shard, some in parts]
        answers: dict[int, Answer] = {}
        for (_, some), reply in zip(parts, replies, strict=True):
            answers.update((i, Answer.parse(text.decode())) for i, text in zip(some, reply, strict=True))
        return [answers[i] for i in range(len(receipts))]


@dataclass(frozen=True)
class Change:
    """A change of a due time. With `expected_ms` it is carried out only where the message is due then until now;
    a relative one always needs it, so that a repeat moves nothing twice."""

    kind: Literal["at", "after", "by"]
    ms: int
    expected_ms: int | None = None

    def arguments(self) -> Args:
        if self.kind == "by" and self.expected_ms is None:
            raise ValueError("a relative move needs the due time that is expected")
        if self.kind != "by" and not 0 <= self.ms <= MAX_TIME_MS:
            raise ValueError(f"{self.ms} is no time in ms")
        due = {"at": str(self.ms), "after": f"+{self.ms}", "by": f"by {self.ms:+d}"}[self.kind]
        return [due, "" if self.expected_ms is None else self.expected_ms]


def _batches(items: list[tuple[int, MessageId, bytes]]) -> Iterable[list[tuple[int, MessageId, bytes]]]:
    batch: list[tuple[int, MessageId, bytes]] = []
    size = 0
    for item in items:
        if batch and (len(batch) == MOST_IDS or size + len(item[2]) > MOST_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += len(item[2])
    if batch:
        yield batch


def _put_answer(message: Message, now_us: int, text: str) -> Answer:
    answer = Answer.parse(text)
    if answer.word not in ("stored", "ready"):
        return answer
    due = now_us // 1000 + message.after_ms if message.at_ms is None else message.at_ms
    return Answer(answer.word, time_ms=due)


def _deliveries(shard: int, topics: Sequence[str], items: list[Any]) -> tuple[list[Delivery], list[tuple[Receipt, str]]]:
    found: list[Delivery] = []
    broken: list[tuple[Receipt, str]] = []
    rest = iter(items)
    for place in rest:
        lease_end, count = next(rest), next(rest)
        for _ in range(count):
            ready, raw, stored = next(rest), next(rest), next(rest)
            receipt, message_id = Receipt(shard, raw), MessageId(raw[raw.index(b":") + 1 : -4])
            try:
                before = Envelope.decode(stored)
            except EnvelopeError as fault:
                broken.append((receipt, str(fault)))
                continue
            counted = replace(before, attempt=min(before.attempt + 1, 65535), delivery=before.delivery + 1)
            found.append(Delivery(receipt, topics[place - 1], message_id, ready, lease_end, counted))
    return found, broken


class ScriptError(Exception):
    """A script refused the whole call; its code says why: DQUNINITIALISED, DQLAYOUT, DQTYPE or DQARG."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.code = message.partition(" ")[0]


def without_script(calls: list[Call], replies: list[Reply]) -> list[int]:
    """The calls whose scripts this Redis does not have. They were not carried out."""
    return [i for i in range(len(calls)) if isinstance(replies[i], NoScriptError)]


def checked(replies: list[Reply]) -> list[Reply]:
    """The replies, unless one is an error."""
    for reply in replies:
        if isinstance(reply, ResponseError) and str(reply).startswith("DQ"):
            raise ScriptError(str(reply))
        if isinstance(reply, Exception):
            raise reply
    return replies
