"""Groups items into script calls and finds the shard of each item."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import ne
from random import getrandbits
from typing import Any, NamedTuple, TypeVar
from zlib import crc32

from redis.exceptions import ConnectionError as LostConnection
from redis.exceptions import ResponseError

from .checks import shown
from .durability import EVERY_TOPIC, Durabilities, Waits
from .errors import InvalidArgument, ScriptError
from .gathering import Gathering
from .items import Answer, Arg, Call, Item
from .link import Command, Link
from .names import generated, name, stored_id
from .outcome import Incomplete, Outcome
from .protocol import GROUP_WRITES, MAX_BYTES_A_CALL, MAX_IDS_A_CALL, META, NEVER, WRITES, Word, key_of
from .runtime import Runtime
from .scripts import script

#: Maximum attempts of a call whose durability is still unknown.
ROUNDS = 4

T = TypeVar("T")


class Calls:
    """A deployment, and the calls of its scripts."""

    def __init__(self, redis: Any, namespace: str, runtime: Runtime, confirm_ms: int | None = None) -> None:
        self.redis, self.namespace = redis, name("namespace", namespace)
        self._runtime = runtime
        self._link = Link(redis, self.namespace, runtime, confirm_ms)
        self._durabilities = Durabilities()
        #: By durability, so that a slow confirmation delays only calls with the same durability.
        self._gatherings: dict[Waits, Gathering] = {}
        #: Shard counts of every layout, newest last. Threads share the list, so it is replaced as a whole.
        self._counts: list[int] = []
        self._identity = ""  # of the deployment, as the first shard that refused a layout named it
        self._learning = Gathering(self._ask_counts, runtime)  # one asks for all
        #: Next shard of a put without id and group.
        self._turn = getrandbits(32)

    async def _learn(self) -> int:
        """Returns the number of shards. The first call asks Redis, which refuses an unknown layout and names the present
        one."""
        self._runtime.enter()
        if not self._counts:
            (answer,) = await self._learning.join([Item("peek", 0, (), ("",))])
            if isinstance(answer, Exception):
                raise answer
        return self._counts[-1]

    async def _ask_counts(self, callers: Sequence[Item]) -> list[Answer | Exception]:
        """Asks one shard per Redis until a Redis answers."""
        faults: list[Exception] = []
        for shard in () if self._counts else self._link.place.first_shards():
            try:
                await self._call("describe", shard, [""])
                break
            except Exception as fault:
                faults.append(fault)
        else:
            if faults:
                raise faults[0]
        return [Answer(b"", 0, 0)] * len(callers)

    async def _call(self, verb: str, shard: int, args: Sequence[Arg]) -> Any:
        """Returns the reply of one call. A change of a group follows all earlier writes."""
        for gathering in list(self._gatherings.values()) if verb in GROUP_WRITES else ():
            await gathering.join([])
        for _ in range(ROUNDS):
            waits = self._durabilities.waits(EVERY_TOPIC) if verb in GROUP_WRITES else ""
            reply = (await self._call_all([Call(verb, shard, args)], waits))[0]
            if not self._durabilities.is_learned(EVERY_TOPIC, reply):
                break
        if isinstance(reply, Exception):
            raise reply
        return reply

    async def _time(self) -> tuple[int, int]:
        """The Redis clock: seconds and microseconds."""
        (reply,) = await self._link.send([Command(key_of(self.namespace, 0, META), ("TIME",))])
        if isinstance(reply, Exception):
            raise reply
        return int(reply[0]), int(reply[1])

    async def _call_all(self, calls: Sequence[Call], waits: Waits = "") -> list[Any]:
        """Returns the reply of each call, or the error. A growth is adopted, and the call repeated."""
        replies = await self._send(calls, self._counts, waits)
        while again := [i for i, reply in enumerate(replies) if reply is None]:
            for i, reply in zip(again, await self._send([calls[i] for i in again], self._counts, waits), strict=True):
                replies[i] = reply
        return replies

    async def _call_each_shard(self, verb: str, args: Sequence[Arg]) -> list[Any]:
        """Returns the replies of all shards, including shards added by a growth meanwhile."""
        replies: list[Any] = []
        while len(replies) < await self._learn():
            replies += await self._call_all([Call(verb, n, args) for n in range(len(replies), self._counts[-1])])
        if fault := next((reply for reply in replies if isinstance(reply, Exception)), None):
            raise fault
        return replies

    async def _outcomes(self, items: Sequence[Item]) -> list[Outcome]:
        """Returns the outcome of each item."""
        answers = await self._answers(items)
        outcomes = [
            Outcome(Word.UNANSWERED, id=item.id, verb=item.verb)
            if isinstance(answer, Exception)
            else Outcome.parse(_timed(answer, item), item.id, answer.shard, item.verb)
            for item, answer in zip(items, answers, strict=True)
        ]
        if faults := [answer for answer in answers if isinstance(answer, Exception)]:
            raise faults[0] if len(faults) == len(items) else Incomplete(outcomes, faults[0]) from faults[0]
        return outcomes

    async def _answers(self, items: Sequence[Item]) -> list[Answer | Exception]:
        """Returns the answer to each item, or the error, batched with the items of other callers."""
        await self._learn()
        answers: list[Any] = [None] * len(items)
        left: Sequence[int] = range(len(items))
        for _ in range(ROUNDS):
            lanes = defaultdict[Waits, list[int]](list)
            for i in left:
                lanes[self._durabilities.waits(topic) if (topic := _topic_of(items[i])) else ""].append(i)
            for waits, places in sorted(lanes.items()):  # those that wait for nothing first
                joined = await self._gathering(waits).join([items[i] for i in places])
                for i, answer in zip(places, joined, strict=True):
                    answers[i] = answer
            left = [i for i in left if self._durabilities.is_learned(_topic_of(items[i]), answers[i])]
            if not left:
                break
        return answers

    def _gathering(self, waits: Waits) -> Gathering:
        if waits not in self._gatherings:
            self._gatherings.setdefault(waits, Gathering(lambda items: self._carry_out(items, waits), self._runtime))
        return self._gatherings[waits]

    async def _carry_out(self, items: Sequence[Item], waits: Waits) -> list[Answer | Exception]:
        """Runs all items in as few calls as possible, searching earlier layouts."""
        self._turn += 1
        answers: list[Answer | Exception | None] = [None] * len(items)
        counts, sought = self._counts, dict.fromkeys(range(len(items)), 0)  # and in how many places they were
        while sought:
            if counts is not self._counts:  # they may belong elsewhere now
                counts, sought = self._counts, dict.fromkeys(sought, 0)
            batches = list(_batches(items, sought, counts))
            replies = await self._send([batch.call(items) for batch in batches], counts, waits)
            for batch, reply in zip(batches, replies, strict=True):
                for i, answer in batch.answers(reply):
                    if answer is None:
                        sought[i] += 1
                    else:
                        answers[i] = answer
                        del sought[i]
        return answers  # type: ignore[return-value]

    async def _send(self, calls: Sequence[Call], counts: list[int], waits: Waits = "") -> list[Any]:
        """Returns the reply of each call, or the error; None if the shard had another layout, which the client adopted, and the
        call did nothing."""
        replies = await self._link.send([self._command(call, counts, waits) for call in calls], waits)
        for i, reply in enumerate(replies):
            if isinstance(reply, ResponseError) and str(reply).startswith(("DQ", "WRONGTYPE")):
                replies[i] = await self._followed(calls[i].shard, str(reply))
        return replies

    def _command(self, call: Call, counts: list[int], waits: Waits) -> Command:
        source, sha = script(call.verb)
        meta, never = (key_of(self.namespace, call.shard, name) for name in (META, NEVER))
        args = ("" if arg is None else arg for arg in call.args)
        node = self._link.place.node(call.shard)
        layout = f"{len(counts)}{node and f'@{node}'} {waits}".rstrip()
        return Command(meta, ("EVALSHA", sha, 2, meta, never, layout, *args), source)

    async def _followed(self, shard: int, refusal: str) -> Exception | None:
        """Adopts the layout of a shard that is ahead, and updates a shard that is behind."""
        code, word, text, identity, *_ = [*refusal.split(), "", "", "", ""]
        if code == "WRONGTYPE":  # a script stops at such a key, and its earlier writes stay
            return ScriptError(
                f"WRONGTYPE a key of shard {shard} has another type, and the call may be carried out in part: `delayq audit` "
                "names the key"
            )
        if code == "DQUNINITIALISED":  # a deployment that is created again has another identity
            self._identity = ""
        elif code == "DQLAYOUT" and (foreign := self._foreign(shard, identity)):
            return foreign
        if code == "DQLAYOUT" and (left := re.match(r"\d+>([\w-]+)", word)):
            return self._follow_move(shard, left[1])
        (layout, _, recorded), at = word.partition("@"), self._link.place.node(shard)
        if code == "DQLAYOUT" and recorded not in ("", at):
            return ScriptError(
                f"DQLAYOUT shard {shard} is recorded on {_keeper(recorded)}, but this client has it on {_keeper(at)}: "
                "correct its nodes"
            )
        found, known = [int(count) for count in text.split(",") if count.isdigit()], self._counts
        if code != "DQLAYOUT" or layout != str(len(found)) or any(map(ne, found, known)):
            return ScriptError(f"{refusal} (node {at})" if at else refusal)
        if len(found) >= len(known):
            self._counts = found
            return None
        grow = Call("grow", shard, [shard, ",".join(map(str, known))])
        (reply,) = await self._send([grow], known)
        return ScriptError(refusal) if isinstance(reply, Exception) or reply.startswith(b"differs") else None


    def _foreign(self, shard: int, identity: str) -> Exception | None:
        """Returns an error if a shard belongs to another deployment than the shards before."""
        if not re.fullmatch("[0-9a-f]{32}", identity):  # from before there were identities
            return None
        known, self._identity = self._identity, self._identity or identity
        if known in ("", identity):
            return None
        return ScriptError(
            f"DQLAYOUT shard {shard} is of deployment {identity[:8]}, and this client serves deployment {known[:8]}: correct the "
            "address of Redis"
        )

    def _follow_move(self, shard: int, to: str) -> Exception | None:
        """Redirects calls to the new node of a shard."""
        if self._link.place.node(shard) == to:
            return LostConnection(f"shard {shard} is moving to node {to}, which does not serve it yet")
        if not self._link.place.move(shard, to):
            return ScriptError(f"DQLAYOUT shard {shard} has moved to node {to}, which is not among those given: add it")
        return None


class _Batch(NamedTuple):
    """Items of one call, by index. `is_last` marks the last shard to search."""

    verb: str
    shard: int
    head: tuple[Arg, ...]
    is_last: bool
    places: Sequence[int]

    def call(self, items: Sequence[Item]) -> Call:
        args = [arg for i in self.places for arg in items[i].args]
        if self.verb == "put" and not self.is_last:
            args[2::4] = [f"{options!s} earlier" for options in args[2::4]]
        return Call(self.verb, self.shard, [*self.head, *args])

    def answers(self, reply: Any) -> Iterator[tuple[int, Answer | Exception | None]]:
        """Yields the answer to each item; None for an item in another shard. Yields nothing if the call must be repeated."""
        if reply is None:
            return
        if isinstance(reply, Exception):
            yield from ((i, reply) for i in self.places)
            return
        now_us = reply[0] if isinstance(reply[0], int) else 0
        # A peek leaves out what is too large for one answer: that is asked for again.
        is_whole = self.verb != "peek"
        for i, raw in zip(self.places, reply[-len(self.places) :] if is_whole else reply[1:], strict=is_whole):
            is_elsewhere = raw in (b"unknown", b"moved", b"") and not self.is_last
            yield i, None if is_elsewhere else Answer(raw, self.shard, now_us)


def _batches(items: Sequence[Item], sought: dict[int, int], counts: Sequence[int]) -> Iterator[_Batch]:
    """Groups items into calls within the limits."""
    batches: dict[tuple[str, int, tuple[Arg, ...], bool], list[int]] = defaultdict(list)
    for i, before in sought.items():
        verb, place, head, *_ = items[i]
        places = places_of(place, counts)
        # Puts search the places of earlier layouts first, and the present place last.
        if verb == "put":
            places.reverse()
        batches[verb, places[before], head, before + 1 == len(places)].append(i)
    for kind, batch in batches.items():
        largest = max((len(arg) for i in batch for arg in items[i].args if isinstance(arg, bytes)), default=1)
        size = min(MAX_IDS_A_CALL, MAX_BYTES_A_CALL // max(largest, 1))
        for at in range(0, len(batch), size):
            yield _Batch(*kind, batch[at : at + size])


def places_of(place: bytes | int, counts: Sequence[int]) -> list[int]:
    """Returns the shards of an id or group: the present shard first, then the shards of earlier layouts."""
    if isinstance(place, int) or generated(place):
        return [place if isinstance(place, int) else int.from_bytes(place[6:8], "big") & 0xFFF]
    return list(dict.fromkeys(crc32(place) % count for count in reversed(counts)))


def _keeper(node: str) -> str:
    return f"node {node}" if node else "one Redis without a node's name"


def _topic_of(item: Item) -> str:
    """The topic whose durability applies; empty for calls that never wait."""
    return str(item.head[0]) if item.verb in WRITES else ""


def item_of(verb: str, head: tuple[Arg, ...], id: str, group: str | None, *args: Arg) -> Item:
    """Returns an item for a message."""
    stored = stored_id(id, group)
    return Item(verb, place_name(stored, group), head, (stored, *args), id)


def place_name(stored: bytes, group: str | None) -> bytes:
    """Returns the name that places a message: a generated id names the shard; an own id is placed by group, or by itself."""
    return stored if group is None or generated(stored) else group.encode()


def listed(what: str, items: Sequence[T], kind: type[T]) -> list[T]:
    """Checks that the argument is a list of this type."""
    many: Any = items
    if isinstance(many, (str, bytes, Mapping, kind)) or not isinstance(many, Iterable):
        raise InvalidArgument(f"{what} must be a list of {kind.__name__}, not {shown(many)}")
    found = list(many)
    if not all(isinstance(item, kind) for item in found):
        raise InvalidArgument(f"{what} must be a list of {kind.__name__}, not {shown(found)}")
    return found


def _timed(answer: Answer, item: Item) -> str:
    """Adds the due time to the answer of a put: ms, or a delay from the time of the reply."""
    text = answer.raw.decode()
    if item.verb != "put" or text not in ("stored", "ready"):
        return text
    due = item.args[1]
    return f"{text} {due if isinstance(due, int) else answer.now_us // 1000 + int(due or 0)}"
