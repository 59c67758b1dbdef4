"""A topic: its messages, its numbers, its policy, and what an operator does to it."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from .calls import MAX_IDS, item_of, listed
from .checks import one_of, shown, text, whole
from .envelope import Stored
from .errors import InvalidArgument
from .inspecting import Inspecting
from .items import Arg
from .names import topic_arg
from .outcome import Outcome, Word
from .policy import Policy, Setting
from .runtime import blocking, blocking_iterator
from .times import MAX_MS, When, as_datetime, range_ms, span_ms

Listable = Literal["delayed", "ready", "leased", "dead"]
Purgeable = Literal["delayed", "ready", "dead"]


@dataclass
class Numbers:
    """The messages of a topic by state, and what became of all that were ever accepted. Shards are counted one after the
    other."""

    delayed: int = 0
    ready: int = 0
    leased: int = 0
    dead: int = 0
    accepted: int = 0
    delivered: int = 0
    cancelled: int = 0
    expired: int = 0
    purged: int = 0
    replaced: int = 0
    #: Ever moved to the dead letters, also more than once.
    buried: int = 0
    #: The first due time of what is delayed, or earlier (what it stood for may be cancelled).
    next_due_ms: int | None = None
    #: In how many shards the topic is paused.
    paused: int = 0
    #: Messages a second, all shards together.
    rate: float | None = None
    #: Keys of another type, whose messages are not counted.
    unreadable: int = 0

    def add(self, reply: Sequence[Any]) -> None:
        """Adds one step of a shard's count."""
        _, delayed, next_due_ms, *first = reply
        self.delayed += delayed
        if next_due_ms != b"":
            self.next_due_ms = min(int(next_due_ms), self.next_due_ms or MAX_MS)
        for counter, number in zip(_COUNTED, first, strict=False):
            setattr(self, counter, getattr(self, counter) + max(number, 0))
        if first:
            paused, rate, unreadable = first[len(_COUNTED) :]
            self.paused += paused != b""
            self.unreadable += unreadable
            self.rate = self.rate if rate == b"" else (self.rate or 0) + float(rate)

    @property
    def next_due(self) -> datetime | None:
        return None if self.next_due_ms is None else as_datetime(self.next_due_ms)


#: What `count` answers behind the first four of its first step.
_COUNTED = "ready", "leased", "dead", "accepted", "delivered", "cancelled", "expired", "purged", "replaced", "buried"


class AsyncTopic:
    """One topic, over all shards."""

    def __init__(self, client: Inspecting, topic: str) -> None:
        self._client, self.name, self._stored = client, topic, topic_arg(topic)

    async def count(self) -> Numbers:
        """Its numbers, summed over all shards."""
        total = Numbers()
        for shard, reply in enumerate(await self._client._call_each_shard("count", [self._stored, 0])):
            total.add(reply)
            while reply[0] != b"":
                reply = await self._client._call("count", shard, [self._stored, reply[0]])
                total.add(reply)
        return total

    async def policy(self) -> Policy:
        """What is set, and None for what is at its default."""
        described = await self._client._call("describe", 0, [self._stored])
        return Policy.read(described, await self._client._learn())

    async def set_policy(self, policy: Policy, reset: Sequence[Setting] = ()) -> Policy:
        """Changes what `policy` has, takes the settings of `reset` back to their defaults, and leaves the rest. Returns the
        whole policy. Where it fails, some shards may have it: safe to repeat."""
        if not isinstance(policy, Policy):
            raise InvalidArgument(f"policy must be a Policy, not {shown(policy)}")
        policy.changes(reset, 1)
        shards = 0
        while shards != await self._client._learn():  # a growth on the way divides a rate by more
            shards = await self._client._learn()
            await self._client._call_each_shard("configure", [self._stored, *policy.changes(reset, shards)])
        return await self.policy()

    async def replay(
        self, ids: Sequence[str], group: str | None = None, *, delay: timedelta = timedelta(0)
    ) -> list[Outcome]:
        """Gives dead letters another life, with their attempts counted from the start. An id of your own is another
        message in each group: it is found by both."""
        head = self._stored, span_ms("delay", delay)
        items = [item_of("replay", head, id, group) for id in listed("ids", ids, str)]
        return await self._client._outcomes(items)

    async def replay_all(
        self, *, reason: str = "", max_messages: int | None = None, delay: timedelta = timedelta(0),
        since: When | None = None, until: When | None = None, past_ok: bool = False,
    ) -> int:
        """Gives dead letters another life, the oldest first: those whose reason has this text, and which died in this time.
        Returns how many. Safe to repeat."""
        text("reason", reason)
        if max_messages is not None:
            whole("max_messages", max_messages, 0, MAX_MS)
        replayed, head = 0, (self._stored, span_ms("delay", delay))
        async for dead in self.list("dead", since=since, until=until, past_ok=past_ok):
            if replayed == max_messages:
                break
            if reason in (dead.reason or ""):
                item = item_of("replay", head, dead.id, dead.group)._replace(place=dead.shard)
                (outcome,) = await self._client._outcomes([item])
                replayed += outcome.word in (Word.READY, Word.DELAYED)
        return replayed

    async def purge(
        self, state: Purgeable, *,
        since: When | None = None, until: When | None = None, past_ok: bool = False,
    ) -> int:
        """Deletes delayed messages due from `since` to `until`, dead ones that died then, or all that are ready. Returns how
        many. Where it fails, some are gone: repeat it."""
        one_of("state", state, ("delayed", "ready", "dead"))
        from_ms, to_ms = range_ms(since, until, past_ok)
        purged, shard = 0, 0
        while shard < await self._client._learn():
            word, at, entry = b"more", from_ms, b""
            while word == b"more":
                args: list[Arg] = [self._stored, state, at, to_ms, entry, MAX_IDS]
                word, gone, _, at, entry = await self._client._call("purge", shard, args)
                purged += gone
            shard += 1
        return purged

    def list(
        self, state: Listable = "delayed", *,
        since: When | None = None, until: When | None = None, past_ok: bool = False,
    ) -> AsyncIterator[Stored]:
        """The messages in one state: delayed ones by due time, leased ones by the end of their lease, dead ones by the time
        of their death, from `since` to `until`; ready ones about in the order of their queues. What changes meanwhile may
        be missing or shown twice."""
        one_of("state", state, ("delayed", "ready", "leased", "dead"))
        return self._client._list(self.name, state, *range_ms(since, until, past_ok))


class Topic:
    """One topic, over all shards."""

    def __init__(self, core: AsyncTopic) -> None:
        self._core, self.name = core, core.name

    count, purge = blocking(AsyncTopic.count), blocking(AsyncTopic.purge)
    policy, set_policy = blocking(AsyncTopic.policy), blocking(AsyncTopic.set_policy)
    replay, replay_all = blocking(AsyncTopic.replay), blocking(AsyncTopic.replay_all)
    list = blocking_iterator(AsyncTopic.list)
