"""What scripts answer of a message."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum

from .times import as_datetime


class Word(str, Enum):
    """What became of a message. Each is equal to its text."""

    STORED = "stored"
    READY = "ready"
    DELAYED = "delayed"
    EXISTS = "exists"
    CONFLICT = "conflict"
    STALE = "stale"
    REFUSED = "refused"
    CANCELLED = "cancelled"
    CHANGED = "changed"
    LEASED = "leased"
    DEAD = "dead"
    FINISHED = "finished"
    UNKNOWN = "unknown"
    FAILED = "failed"
    EXTENDED = "extended"
    DELIVERED = "delivered"
    BURIED = "buried"
    EXPIRED = "expired"
    EXPIRED_MESSAGE = "expired-message"
    NOT_DEAD = "not-dead"
    UNANSWERED = "unanswered"

    __str__ = str.__str__


class State(str, Enum):
    """Where a message is. Each is equal to its text."""

    DELAYED = "delayed"
    READY = "ready"
    LEASED = "leased"
    DEAD = "dead"
    DELIVERED = "delivered"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    PURGED = "purged"
    #: Of a conflict: the id is taken by bytes that cannot be read, or by a later format.
    MALFORMED = "malformed"
    NEWER = "newer"

    __str__ = str.__str__


_LOST = State.CANCELLED, State.EXPIRED, State.PURGED
#: Of each verb, the words that say yes.
_ACCEPTED = {
    "put": (Word.STORED, Word.READY), "cancel": (Word.CANCELLED,), "reschedule": (Word.DELAYED, Word.READY),
    "replay": (Word.DELAYED, Word.READY), "extend": (Word.EXTENDED,), "ack": (Word.DELIVERED,), "bury": (Word.BURIED,),
    "release": (Word.DELAYED, Word.READY, Word.BURIED, Word.CANCELLED, Word.EXPIRED_MESSAGE),
}


@dataclass(frozen=True)
class Outcome:
    """What became of one message: a word, and what belongs to it. The README lists the words of each verb."""

    word: Word
    #: When it is due; of a finished one, when it ended; of a lease, its end. In ms, on Redis's clock.
    time_ms: int | None = None
    #: When it was due before.
    old_ms: int | None = None
    #: The state that the answer names.
    state: State | None = None
    #: Why it was refused or failed.
    why: str | None = None
    #: A cancel came while it was leased: it will not be tried again.
    doomed: bool = False
    #: The message's id: with its topic (and its group, where it has an id of your own) it finds the message again.
    id: str = ""
    #: The shard that answered.
    shard: int = 0
    #: What was asked for: put, cancel, reschedule …
    verb: str = ""

    @property
    def accepted(self) -> bool:
        """Whether what was asked for holds. Of a put: the message is or was delivered as it was asked, by this put or an
        earlier one; not where that was cancelled, has expired or was purged, for nothing was stored then. Of a cancel: it
        will not be delivered. Of a reschedule: it has the new due time. Of what settles: the lease was still there."""
        if self.word is Word.EXISTS:
            return self.state not in _LOST
        return self.word in _ACCEPTED.get(self.verb, ())

    @property
    def time(self) -> datetime | None:
        """`time_ms` as a datetime in UTC."""
        return None if self.time_ms is None else as_datetime(self.time_ms)

    @classmethod
    def parse(cls, text: str, id: str = "", shard: int = 0, verb: str = "") -> "Outcome":
        """Reads a script's answer of one message."""
        of = {"id": id, "shard": shard, "verb": verb}
        return replace(cls._parsed(text), **of)  # type: ignore[arg-type]

    @classmethod
    def _parsed(cls, text: str) -> "Outcome":
        first, *words = text.replace("not dead", "not-dead", 1).split(" ")
        times = [int(one) for one in (first, *words) if one.isdigit()]
        if first.isdigit() or first == Word.CANCELLED and times:
            return cls(Word.EXTENDED, times[0], doomed=bool(words))
        word = Word(first)
        if word in (Word.REFUSED, Word.FAILED):
            return cls(word, why=" ".join(words))
        if len(times) == 2:
            return cls(word, times[1], times[0])
        state = State(words[0]) if words and not words[0].isdigit() else None
        return cls(word, times[0] if times else None, state=state)


class Incomplete(Exception):
    """Some of many messages have an answer, and others none; `__cause__` says why.

    `outcomes` has one for each message, in order. Those without an answer have the word `unanswered`; unless the cause
    is a ScriptError, their call may have been carried out. Repeat those alone, under the same ids.
    """

    def __init__(self, outcomes: Sequence[Outcome], cause: Exception) -> None:
        super().__init__(f"{sum(one.word == 'unanswered' for one in outcomes)} of {len(outcomes)}: {cause}")
        self.outcomes = outcomes
