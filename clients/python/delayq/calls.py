"""Calls of scripts: many messages at a time, in as few calls as the limits allow, wherever they are."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from inspect import isawaitable
from operator import ne
from typing import Any, NamedTuple
from zlib import crc32

from redis.client import NEVER_DECODE
from redis.exceptions import NoScriptError, ResponseError

from .names import generated, name
from .outcome import Outcome
from .scripts import script

MOST_IDS = 500
MOST_BYTES = 4 * 1024 * 1024

#: None for what the script does where nothing is said.
Arg = bytes | str | int | None


class ScriptError(Exception):
    """A script refused the whole call, and did nothing. Why: DQUNINITIALISED, DQLAYOUT, DQTYPE or DQARG."""

    @property
    def code(self) -> str:
        return str(self).partition(" ")[0]


class Incomplete(Exception):
    """Some of many messages have an answer, and others none: `__cause__` says why. `outcomes` has one for each, in
    order; the word `unanswered` stands for none, and then the call may have been carried out unless the cause is a
    ScriptError. Repeat those alone, under the same ids."""

    def __init__(self, outcomes: Sequence[Outcome], cause: Exception) -> None:
        super().__init__(f"{sum(one.word == 'unanswered' for one in outcomes)} of {len(outcomes)}: {cause}")
        self.outcomes = outcomes


class Item(NamedTuple):
    """One message in a call: what says its place (a name, or a shard), its topic, and its arguments."""

    place: bytes | int
    topic: tuple[str, ...]
    args: tuple[Arg, ...]
    id: str = ""


class Calls:
    """A deployment, and the calls of its scripts over a connection of either kind."""

    def __init__(self, redis: Any, namespace: str) -> None:
        self.redis, self.namespace = redis, name("namespace", namespace)
        #: How many shards there were in each layout, the newest last. Replaced as a whole: threads share it.
        self._counts: list[int] = []

    async def _learn(self) -> int:
        """How many shards there are. The first time, Redis is asked: who knows none is refused, and told."""
        if not self._counts:
            await self._call("describe", 0, [""])
        return self._counts[-1]

    async def _each(self, verb: str, items: Sequence[Item]) -> list[Outcome]:
        """Carries a verb out for each item. What is answered is told, whatever becomes of the others."""
        await self._learn()
        outcomes: dict[int, Outcome] = {}
        try:
            fault = await self._fill(verb, items, outcomes)
        except Exception as lost:
            fault = lost
        if fault and outcomes:
            unanswered = (Outcome("unanswered", id=item.id) for item in items)
            raise Incomplete([outcomes.get(i, one) for i, one in enumerate(unanswered)], fault) from fault
        if fault:
            raise fault
        return [outcomes[i] for i in range(len(items))]

    async def _fill(
        self, verb: str, items: Sequence[Item], outcomes: dict[int, Outcome]
    ) -> Exception | None:
        """Fills the outcomes in. A shard that refuses its call does not keep the others from theirs."""
        refused: Exception | None = None
        largest = max((len(arg) for item in items for arg in item.args if isinstance(arg, bytes)), default=1)
        most = min(MOST_IDS, MOST_BYTES // largest)
        counts, sought = self._counts, dict.fromkeys(range(len(items)), 0)  # and in how many places they were
        while sought:
            if counts is not self._counts:  # they may belong elsewhere now
                counts, sought = self._counts, dict.fromkeys(sought, 0)
            batches: dict[tuple[int, tuple[str, ...], bool], list[int]] = defaultdict(list)
            for i, before in sought.items():
                places = places_of(items[i].place, counts)
                # A put goes first to where it may be since before a growth, in the end where it belongs.
                if verb == "put":
                    places.reverse()
                batches[places[before], items[i].topic, before + 1 == len(places)].append(i)
            for (shard, topic, last), batch in batches.items():
                for some in (batch[at : at + most] for at in range(0, len(batch), most)):
                    args = [arg for i in some for arg in items[i].args]
                    if verb == "put" and not last:
                        args[2::4] = [f"{options!s} earlier" for options in args[2::4]]
                    try:
                        reply = await self._call(verb, shard, [*topic, *args], counts) or []
                    except ScriptError as refusal:
                        refused, reply = refusal, []
                        sought = {i: before for i, before in sought.items() if i not in some}
                    for i, answer in zip(some, reply[-len(some) :], strict=False):
                        if answer in (b"unknown", b"moved") and not last:
                            sought[i] += 1
                            continue
                        text = _timed(answer.decode(), items[i].args, reply[0])
                        outcomes[i] = replace(Outcome.parse(text), id=items[i].id, shard=shard)
                        del sought[i]
        return refused

    async def _call(self, verb: str, shard: int, args: Sequence[Arg], counts: list[int] | None = None) -> Any:
        """The reply of one call; None where the shard has other counts than these, which it then follows. A
        Redis that has not got the script is given it."""
        source, sha = script(verb)
        keys = [f"{{{self.namespace}:{shard}}}:{name}" for name in ("meta", "never")]
        known = self._counts if counts is None else counts
        rest = (2, *keys, len(known), *("" if arg is None else arg for arg in args))
        for how in (("EVALSHA", sha), ("EVAL", source)):
            try:
                return await self._command(*how, *rest)
            except NoScriptError:
                continue
            except ResponseError as refusal:
                await self._follow(shard, refusal)
                return None if counts is not None else await self._call(verb, shard, args)

    async def _follow(self, shard: int, refusal: ResponseError) -> None:
        """Takes over the layout of a shard that knows more, and tells one that knows less."""
        code, layout, text, *_ = [*str(refusal).split(), "", "", ""]
        told, known = [int(count) for count in text.split(",") if count.isdigit()], self._counts
        if code != "DQLAYOUT" or layout != str(len(told)) or any(map(ne, told, known)):
            raise ScriptError(str(refusal)) if code.startswith("DQ") else refusal
        if len(told) < len(known):
            await self._call("grow", shard, [shard, ",".join(map(str, known))])
        else:
            self._counts = told

    async def _command(self, *args: Arg) -> Any:
        """The reply of a command in bytes, whatever the connection decodes."""
        return await settled(self.redis.execute_command(*args, **{NEVER_DECODE: []}))


async def settled(answer: Any) -> Any:
    """What Redis answered: a blocking connection has it already, an asynchronous one lets it be awaited."""
    return await answer if isawaitable(answer) else answer


def places_of(place: bytes | int, counts: Sequence[int]) -> list[int]:
    """The shards where something may be: where it belongs, then where it belonged before each growth."""
    if isinstance(place, int) or generated(place):
        return [place if isinstance(place, int) else int.from_bytes(place[6:8], "big") & 0xFFF]
    return list(dict.fromkeys(crc32(place) % count for count in reversed(counts)))


def _timed(answer: str, args: Sequence[Arg], now_us: Any) -> str:
    """The answer of a put with its due time: one in ms, or "+" and a delay from the reply's time."""
    if answer not in ("stored", "ready"):
        return answer
    return f"{answer} {args[1] if isinstance(args[1], int) else now_us // 1000 + int(args[1] or 0)}"
