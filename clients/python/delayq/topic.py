"""Topics: messages, counts, policy and operations."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from .calls import item_of, listed
from .checks import one_of, shown, text, whole
from .envelope import Stored
from .errors import InvalidArgument
from .inspecting import Inspecting
from .items import Arg
from .names import name, topic_arg
from .outcome import Outcome
from .policy import Policy
from .protocol import MAX_IDS_A_CALL, MAX_TIME_MS, Word
from .runtime import blocking, blocking_iterator
from .settings import Setting
from .steps import PROMOTED, in_steps
from .times import When, as_datetime, range_ms, span_ms

Listable = Literal["delayed", "ready", "leased", "dead"]
Purgeable = Literal["delayed", "ready", "dead"]


@dataclass
class Numbers:
    """Counts of the messages of a topic by state, and of all messages ever accepted by fate. Shards are counted one after the
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
    #: Every burial, repeated ones included.
    buried: int = 0
    #: Due time of the next delayed message, or earlier (that message may be cancelled).
    next_due_ms: int | None = None
    #: Number of shards in which the topic is paused.
    paused: int = 0
    #: Deliveries per second over all shards.
    rate: float | None = None
    #: Keys of another type, whose messages are not counted.
    unreadable: int = 0

    def add(self, reply: Sequence[Any]) -> None:
        """Adds one step of a shard."""
        _, delayed, next_due_ms, *first = reply
        self.delayed += delayed
        if next_due_ms != b"":
            self.next_due_ms = min(int(next_due_ms), self.next_due_ms or MAX_TIME_MS)
        for counter, number in zip(_COUNTED, first, strict=False):
            setattr(self, counter, getattr(self, counter) + max(number, 0))
        if first:
            paused, rate, unreadable, *_ = first[len(_COUNTED) :]
            self.paused += paused != b""
            self.unreadable += unreadable
            self.rate = self.rate if rate == b"" else (self.rate or 0) + float(rate)

    @property
    def next_due(self) -> datetime | None:
        return None if self.next_due_ms is None else as_datetime(self.next_due_ms)


#: Numbers of the first step of `count`, after the first four.
_COUNTED = "ready", "leased", "dead", "accepted", "delivered", "cancelled", "expired", "purged", "replaced", "buried"


class AsyncTopic:
    """One topic, over all shards."""

    def __init__(self, client: Inspecting, topic: str) -> None:
        self._client, self.name, self._stored = client, topic, topic_arg(topic)

    async def count(self) -> Numbers:
        """Counts messages over all shards."""
        total = Numbers()
        for shard, reply in enumerate(await self._client._call_each_shard("count", [self._stored, 0])):
            total.add(reply)
            while reply[0] != b"":
                reply = await self._client._call("count", shard, [self._stored, reply[0]])
                total.add(reply)
        return total

    async def policy(self) -> Policy:
        """Returns the settings that differ from the defaults; None for the rest."""
        described = await self._client._call("describe", 0, [self.name])
        return Policy.read(described[1:], await self._client._learn())

    async def set_policy(self, policy: Policy, reset: Sequence[Setting] = ()) -> Policy:
        """Applies the settings of `policy`, resets the settings in `reset`, and returns the whole policy. After a failure, some
        shards may have the change: safe to repeat."""
        if not isinstance(policy, Policy):
            raise InvalidArgument(f"policy must be a Policy, not {shown(policy)}")
        policy.changes(reset, 1)
        shards = 0
        while shards != await self._client._learn():  # a growth on the way divides a rate by more
            shards = await self._client._learn()
            await self._client._call_each_shard("configure", [self._stored, *policy.changes(reset, shards)])
        return await self.policy()

    async def pause_group(self, group: str) -> None:
        """Stops the messages of one group of the topic from being reserved; messages of other groups pass. Safe to repeat."""
        await self._client._call_each_shard("pause_group", [self._stored, "pause", name("group", group)])

    async def resume_group(self, group: str) -> None:
        """Lets a paused group continue, in the order in which its messages became ready. Safe to repeat."""
        await self._client._call_each_shard("pause_group", [self._stored, "resume", name("group", group)])

    async def paused_groups(self) -> dict[str, datetime]:
        """Returns the paused groups, the longest paused first, and since when each is paused."""
        groups: dict[str, datetime] = {}
        since: Arg = b""
        last = b""
        page = [b""]
        while page:
            page = await self._client._call("paused_groups", 0, [self._stored, since, last, MAX_IDS_A_CALL])
            for last, since in zip(page[::2], page[1::2], strict=True):
                groups[last.decode()] = as_datetime(int(since))
        return groups

    async def replay(
        self, ids: Sequence[str], group: str | None = None, *, delay: timedelta = timedelta(0)
    ) -> list[Outcome]:
        """Revives dead letters, with attempts counted from zero. The same own id in another group is another message."""
        head = self._stored, span_ms("delay", delay)
        items = [item_of("replay", head, id, group) for id in listed("ids", ids, str)]
        return await self._client._outcomes(items)

    async def replay_all(
        self, *, reason: str = "", max_messages: int | None = None, delay: timedelta = timedelta(0),
        since: When | None = None, until: When | None = None, past_ok: bool = False,
    ) -> int:
        """Revives dead letters, oldest first, whose reason contains the text and which died in the range. Returns the number
        revived. Safe to repeat."""
        text("reason", reason)
        if max_messages is not None:
            whole("max_messages", max_messages, 0, MAX_TIME_MS)
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
        """Deletes delayed messages due in the range, dead letters that died in the range, or all ready messages. Returns the
        number deleted. After a failure, some are deleted: repeat the call."""
        one_of("state", state, ("delayed", "ready", "dead"))
        return await self._on_each_shard("purge", state, range_ms(since, until, past_ok), MAX_IDS_A_CALL)

    async def promote(
        self, *, since: When | None = None, until: When | None = None, past_ok: bool = False,
    ) -> int:
        """Makes delayed messages due in the range ready now, in each shard the earliest due first. Returns the number promoted.
        Safe to repeat. For one message: `client.reschedule(topic, id, after=timedelta(0))`."""
        return await self._on_each_shard("promote", "", range_ms(since, until, past_ok), PROMOTED)

    async def _on_each_shard(self, verb: str, word: str, times: tuple[int, int], most: int) -> int:
        changed, shard = 0, 0
        while shard < await self._client._learn():
            changed += await in_steps(self._client._call, verb, shard, [self._stored, word], times, most)
            shard += 1
        return changed

    def list(
        self, state: Listable = "delayed", *,
        since: When | None = None, until: When | None = None, past_ok: bool = False,
    ) -> AsyncIterator[Stored]:
        """Iterates over messages in one state: delayed by due time, leased by end of lease, dead by time of death, from `since`
        to `until`; ready approximately in queue order. Concurrent changes may hide or repeat messages."""
        one_of("state", state, ("delayed", "ready", "leased", "dead"))
        return self._client._list(self.name, state, *range_ms(since, until, past_ok))


class Topic:
    """One topic, over all shards."""

    def __init__(self, core: AsyncTopic) -> None:
        self._core, self.name = core, core.name

    count, purge = blocking(AsyncTopic.count), blocking(AsyncTopic.purge)
    promote = blocking(AsyncTopic.promote)
    policy, set_policy = blocking(AsyncTopic.policy), blocking(AsyncTopic.set_policy)
    pause_group, resume_group = blocking(AsyncTopic.pause_group), blocking(AsyncTopic.resume_group)
    paused_groups = blocking(AsyncTopic.paused_groups)
    replay, replay_all = blocking(AsyncTopic.replay), blocking(AsyncTopic.replay_all)
    list = blocking_iterator(AsyncTopic.list)
