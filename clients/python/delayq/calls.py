"""Calls of scripts: many messages at a time, in as few calls as the limits allow, wherever their shards are."""

from collections import defaultdict
from collections.abc import Sequence
from inspect import isawaitable
from operator import ne
from typing import Any, NamedTuple
from zlib import crc32

from redis.client import NEVER_DECODE
from redis.exceptions import NoScriptError, ResponseError

from .names import generated, name
from .scripts import script

MOST_IDS = 500
MOST_BYTES = 4 * 1024 * 1024

#: None for what the script does where nothing is said.
Arg = bytes | str | int | None


class ScriptError(Exception):
    """A script refused the whole call, and did nothing. Its code says why: DQUNINITIALISED, DQLAYOUT, DQTYPE, DQARG."""

    @property
    def code(self) -> str:
        return str(self).partition(" ")[0]


class Item(NamedTuple):
    """One message in a call: what says its place (a name, or a shard's number), its topic, its id or receipt, the rest."""

    place: bytes | int
    topic: tuple[str, ...]
    args: tuple[Arg, ...]


class Calls:
    """A deployment, and the calls of its scripts over a connection of either kind."""

    def __init__(self, redis: Any, namespace: str) -> None:
        self.redis, self.namespace = redis, name("namespace", namespace)
        #: How many shards there were in each layout, the newest last. Replaced as a whole, as threads may share it.
        self._counts: list[int] = []

    async def _learn(self) -> int:
        """How many shards there are. The first time, Redis is asked: whoever knows none is refused, and told."""
        if not self._counts:
            await self._call("describe", [], 0, [""])
        return self._counts[-1]

    async def _each(self, verb: str, items: Sequence[Item]) -> list[tuple[str, int, Any]]:
        """Of each item the answer, its shard, and with what the reply began (of a put, the time in µs)."""
        await self._learn()
        largest = max((len(arg) for item in items for arg in item.args if isinstance(arg, bytes)), default=1)
        most = min(MOST_IDS, MOST_BYTES // largest)
        answers: dict[int, tuple[str, int, Any]] = {}
        sought = dict.fromkeys(range(len(items)), 0)  # without an answer yet, and in how many places they were sought
        while sought:
            counts = self._counts
            batches: dict[tuple[int, tuple[str, ...], bool], list[int]] = defaultdict(list)
            for i, before in sought.items():
                places = places_of(items[i].place, counts)
                if verb == "put":  # first to where it may be since before a growth, in the end where it belongs
                    places.reverse()
                batches[places[before], items[i].topic, before + 1 == len(places)].append(i)
            for (shard, topic, last), batch in batches.items():
                for some in (batch[at : at + most] for at in range(0, len(batch), most)):
                    args = [arg for i in some for arg in items[i].args]
                    if verb == "put" and not last:
                        args[2::4] = [f"{options!s} earlier" for options in args[2::4]]
                    reply = await self._call(verb, counts, shard, [*topic, *args])
                    for i, text in zip(some, (reply or [None] * len(some))[-len(some) :], strict=True):
                        if text and (last or text not in (b"unknown", b"moved")):
                            answers[i] = text.decode(), shard, reply[0]
                            del sought[i]
                        else:  # it may be elsewhere, or belong elsewhere now that the layout is another
                            sought[i] = sought[i] + 1 if text else 0
        return [answers[i] for i in range(len(items))]

    async def _one(self, verb: str, shard: int, args: Sequence[Arg]) -> Any:
        """The reply of one call, whatever the layout."""
        while (reply := await self._call(verb, self._counts, shard, args)) is None:
            pass
        return reply

    async def _call(self, verb: str, counts: list[int], shard: int, args: Sequence[Arg]) -> Any:
        """The reply of one call; None where the shard had another layout, which is followed then. A Redis that has not
        got the script is given it."""
        source, sha = script(verb)
        base = f"{{{self.namespace}:{shard}}}:"
        rest = (2, f"{base}meta", f"{base}never", len(counts), *("" if arg is None else arg for arg in args))
        for how in (("EVALSHA", sha), ("EVAL", source)):
            try:
                return await self._command(*how, *rest)
            except NoScriptError:
                continue
            except ResponseError as refusal:
                return await self._follow(shard, refusal)

    async def _follow(self, shard: int, refusal: ResponseError) -> None:
        """Takes over the layout of a shard that knows more, and tells one that knows less. Other errors it raises."""
        code, layout, text, *_ = [*str(refusal).split(), "", "", ""]
        told, known = [int(count) for count in text.split(",") if count.isdigit()], self._counts
        if code != "DQLAYOUT" or layout != str(len(told)) or any(map(ne, told, known)):
            raise ScriptError(str(refusal)) if code.startswith("DQ") else refusal
        if len(told) < len(known):
            await self._one("grow", shard, [shard, ",".join(map(str, known))])
        else:
            self._counts = told

    async def _command(self, *args: Arg) -> Any:
        """The reply of a command in bytes, whatever the connection decodes."""
        return await settled(self.redis.execute_command(*args, **{NEVER_DECODE: []}))


async def settled(answer: Any) -> Any:
    """What Redis answered: a blocking connection has it already, an asynchronous one lets it be awaited."""
    return await answer if isawaitable(answer) else answer


def places_of(place: bytes | int, counts: Sequence[int]) -> list[int]:
    """The shards where something may be: where it belongs, then where it belonged before the deployment grew."""
    if isinstance(place, int) or generated(place):
        return [place if isinstance(place, int) else int.from_bytes(place[6:8], "big") & 0xFFF]
    return list(dict.fromkeys(crc32(place) % count for count in reversed(counts)))
