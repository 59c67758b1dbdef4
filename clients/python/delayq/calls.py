"""Calls of scripts, as steps: a generator that asks Redis something, and is sent what it answered.

So every verb is written once, and carried out by the blocking client or by the asynchronous one.
"""

import random
from collections.abc import Callable, Coroutine, Generator, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Generic, NamedTuple, ParamSpec, TypeVar, overload
from zlib import crc32

from redis.client import NEVER_DECODE
from redis.exceptions import NoScriptError, ResponseError

from .message import MAX_PAYLOAD_BYTES
from .names import generated, name
from .scripts import script

if TYPE_CHECKING:
    from .client import AsyncClient, Client

MOST_IDS = 500
MOST_BYTES = 4 * 1024 * 1024

Arg = bytes | str | int
P = ParamSpec("P")
R = TypeVar("R")
Connection = TypeVar("Connection")
#: What is asked of a connection and of a pub/sub listener: of both kinds alike, the asynchronous one's answer is awaited.
Ask = Callable[[Any, Any], Any]
Steps = Generator[Ask, Any, R]


class verb(Generic[P, R]):
    """A method of both clients: the blocking one carries its steps out, the asynchronous one gives a coroutine."""

    def __init__(self, steps: Callable[Concatenate[Any, P], Steps[R]]) -> None:
        self.steps, self.__doc__ = steps, steps.__doc__

    @overload
    def __get__(self, client: "Client", kind: Any = None) -> Callable[P, R]: ...
    @overload
    def __get__(self, client: "AsyncClient", kind: Any = None) -> Callable[P, Coroutine[Any, Any, R]]: ...
    def __get__(self, client: Any, kind: Any = None) -> Any:
        if client is None:
            return self.steps
        bound = self.steps.__get__(client)
        return wraps(bound)(lambda *args, **options: client.run(bound(*args, **options)))


class ScriptError(Exception):
    """A script refused the whole call, and did nothing. Its code says why: DQUNINITIALISED, DQLAYOUT, DQTYPE, DQARG."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.code = message.partition(" ")[0]


class Item(NamedTuple):
    """One message in a call: what says its place (a name, or a shard's number), its topic, its id or receipt, the rest."""

    place: bytes | int
    topic: tuple[str, ...]
    id: bytes
    args: tuple[Arg, ...]


class Calls(Generic[Connection]):
    """A deployment, and the calls of its scripts."""

    def __init__(self, redis: Connection, namespace: str = "dq", most_payload_bytes: int = 262144) -> None:
        self.redis, self.namespace = redis, name("namespace", namespace)
        self.most_payload_bytes = min(most_payload_bytes, MAX_PAYLOAD_BYTES)
        #: How many shards there were in each layout, the newest last. Replaced as a whole, as threads may share it.
        self._counts: list[int] = []
        self._dictionaries: dict[int, bytes] = {}
        self._turn = random.getrandbits(32)

    def _learn(self) -> Steps[int]:
        """How many shards there are. The first time, Redis is asked: whoever knows none is refused, and told."""
        if not self._counts:
            yield from self._call("describe", [], 0, [""])
        return self._counts[-1]

    def _each(self, verb: str, items: Sequence[Item]) -> Steps[list[tuple[str, int, Any]]]:
        """Of each item the answer, its shard, and with what the answer began (of a put, the time in µs)."""
        yield from self._learn()
        answers: dict[int, tuple[str, int, Any]] = {}
        asked = dict.fromkeys(range(len(items)), 0)  # without an answer yet, and in how many places they were sought
        while asked:
            counts = self._counts
            groups: dict[tuple[int, tuple[str, ...]], list[tuple[int, bool, list[Arg]]]] = {}
            for i, before in asked.items():
                places, args = places_of(items[i].place, counts), [items[i].id, *items[i].args]
                last = before + 1 == len(places)
                if verb == "put":  # first to where it may be since before a growth, in the end where it belongs
                    places.reverse()
                    args[2] = args[2] if last else f"{args[2]!s} earlier"
                groups.setdefault((places[before], items[i].topic), []).append((i, last, args))
            for (shard, topic), group in groups.items():
                largest = max(len(arg) for *_, args in group for arg in args if isinstance(arg, bytes))
                most = min(MOST_IDS, MOST_BYTES // largest)
                for batch in (group[at : at + most] for at in range(0, len(group), most)):
                    reply = yield from self._call(verb, counts, shard, [*topic, *(arg for *_, args in batch for arg in args)])
                    for n, (i, last, _) in enumerate(batch):
                        text = "" if reply is None else reply[n - len(batch)].decode()
                        if text and (last or text not in ("unknown", "moved")):
                            answers[i] = text, shard, reply[0]
                            del asked[i]
                        else:
                            asked[i] = asked[i] + 1 if text else 0
        return [answers[i] for i in range(len(items))]

    def _one(self, verb: str, shard: int, args: Sequence[Arg]) -> Steps[Any]:
        """The reply of one call, whatever the layout."""
        while (reply := (yield from self._call(verb, self._counts, shard, args))) is None:
            pass
        return reply

    def _call(self, verb: str, counts: list[int], shard: int, args: Sequence[Arg]) -> Steps[Any]:
        """The reply of one call; None where the shard had another layout, which is followed then. A Redis that has not
        got the script is given it."""
        source, sha = script(verb)
        base = f"{{{self.namespace}:{shard}}}:"
        asked: list[Arg] = ["EVALSHA", sha, 2, f"{base}meta", f"{base}never", len(counts), *args]
        [reply] = yield commands([asked])
        if isinstance(reply, NoScriptError):
            [reply] = yield commands([["EVAL", source, *asked[2:]]])
        if isinstance(reply, ResponseError) and str(reply).startswith("DQ"):
            return (yield from self._follow(shard, ScriptError(str(reply))))
        if isinstance(reply, Exception):
            raise reply
        return reply

    def _follow(self, shard: int, refusal: ScriptError) -> Steps[None]:
        """Takes over the layout of a shard that knows more, and tells one that knows less."""
        _, layout, text, *_ = [*str(refusal).split(), "", ""]
        told, known = [int(count) for count in text.split(",") if count.isdigit()], self._counts
        both = min(len(told), len(known))
        if refusal.code != "DQLAYOUT" or layout != str(len(told)) or told[:both] != known[:both]:
            raise refusal
        if len(told) < len(known):
            yield from self._one("grow", shard, [shard, ",".join(map(str, known))])
        else:
            self._counts = told


def places_of(place: bytes | int, counts: Sequence[int]) -> list[int]:
    """The shards where something may be: where it belongs, then where it belonged before the deployment grew."""
    if isinstance(place, int) or generated(place):
        return [place if isinstance(place, int) else int.from_bytes(place[6:8], "big") & 0xFFF]
    return list(dict.fromkeys(crc32(place) % count for count in reversed(counts)))


def commands(some: Sequence[Sequence[Arg]]) -> Ask:
    """Asks for the replies of commands in one round trip, errors in their places."""

    def ask(redis: Any, _: Any) -> Any:
        pipeline = redis.pipeline(transaction=False)
        for command in some:
            pipeline.execute_command(*command, **{NEVER_DECODE: []})
        return pipeline.execute(raise_on_error=False)

    return ask
