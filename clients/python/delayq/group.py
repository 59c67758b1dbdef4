"""Groups: messages listed, moved and cancelled together."""

import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from .calls import places_of
from .compression import Restoring
from .envelope import Stored, named
from .errors import InvalidArgument
from .items import Arg
from .names import name, topic_arg, topic_text
from .protocol import MAX_IDS_A_CALL
from .runtime import blocking, blocking_iterator
from .steps import PROMOTED, in_steps
from .times import When, difference_ms, range_ms

PAGE = 100


@dataclass
class GroupCancel:
    """Counts of messages: cancelled; leased (not retried after this attempt); failed (unreadable)."""

    cancelled: int = 0
    leased: int = 0
    failed: int = 0


@dataclass
class GroupShift:
    """Counts of messages: moved; passed over (leased, or expired before the new due time)."""

    moved: int = 0
    passed: int = 0
    #: Another shift of the group is in progress, so this shift did nothing in that shard.
    busy: bool = False


class AsyncGroup:
    """The messages of a group, of all topics or of one."""

    def __init__(self, client: Restoring, group: str, topic: str | None = None) -> None:
        self._client, self.name, self.topic = client, name("group", group), topic
        only = "" if topic is None else topic_arg(topic)
        self._only = only.encode() if isinstance(only, str) else only

    async def cancel(self) -> GroupCancel:
        """Cancels all of these messages. Safe to repeat."""
        total = GroupCancel()
        async for shard in self._places():
            at: Any = 0
            entry = b""
            while at != b"":
                args: list[Arg] = [self.name, self._only, at, entry, MAX_IDS_A_CALL]
                at, entry, *step = await self._client._call("cancel_group", shard, args)
                total.cancelled += step[0]
                total.leased += step[1]
                total.failed += step[2]
        return total

    async def shift(self, by: timedelta, token: str | None = None) -> GroupShift:
        """Moves all due times by the same difference, each message once. A repeat with the same token resumes an interrupted
        shift."""
        by_ms, token = difference_ms("by", by), secrets.token_hex(8) if token is None else name("token", token)
        if by_ms == 0:
            raise InvalidArgument("by must not be zero")
        total = GroupShift()
        async for shard in self._places():
            word: Any = b"more"
            while word == b"more":
                args: list[Arg] = [self.name, self._only, token, by_ms, MAX_IDS_A_CALL]
                word, moved, passed = await self._client._call("shift_group", shard, args)
                total.moved += moved
                total.passed += passed
            total.busy |= word == b"busy"
        return total

    async def promote(
        self, *, since: When | None = None, until: When | None = None, past_ok: bool = False,
    ) -> int:
        """Makes delayed messages due in the range ready now, the earliest due first. Returns the number promoted. Safe to
        repeat."""
        times, promoted = range_ms(since, until, past_ok), 0
        async for shard in self._places():
            head: list[Arg] = [self._only, self.name]
            promoted += await in_steps(self._client._call, "promote", shard, head, times, PROMOTED)
        return promoted

    async def list(self) -> AsyncIterator[Stored]:
        """Iterates over pending messages, by due time in each shard (one shard, unless the deployment has grown)."""
        async for shard in self._places():
            at: Any = 0
            entry = b""
            while at != b"":
                reply = await self._client._call("list_group", shard, [self.name, at, entry, PAGE])
                _, _, at, entry, *items = reply
                for topic, raw, stored in zip(items[::3], items[1::3], items[2::3], strict=True):
                    if self._only in (b"", topic):
                        yield await self._client._shown(named(topic_text(topic), raw, shard), stored)

    async def _places(self) -> AsyncIterator[int]:
        """Yields the shards that may have messages of the group, including shards added by a growth meanwhile."""
        await self._client._learn()
        through: set[int] = set()
        place = self.name.encode()
        while left := [shard for shard in places_of(place, self._client._counts) if shard not in through]:
            yield left[0]
            through.add(left[0])


class Group:
    """The messages of a group, of all topics or of one."""

    def __init__(self, core: AsyncGroup) -> None:
        self._core, self.name, self.topic = core, core.name, core.topic

    cancel, shift = blocking(AsyncGroup.cancel), blocking(AsyncGroup.shift)
    promote = blocking(AsyncGroup.promote)
    list = blocking_iterator(AsyncGroup.list)
