"""Answers of scripts for one message."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from .protocol import ACCEPTED, LOST, State, Word
from .times import as_datetime


@dataclass(frozen=True)
class Outcome:
    """The result of a call for one message: a word with details. The README lists the words of each verb."""

    word: Word
    #: The due time, the end of a finished message, or the end of a lease, in ms on the Redis clock.
    time_ms: int | None = None
    #: The previous due time.
    old_ms: int | None = None
    #: The state in the answer.
    state: State | None = None
    #: The reason of `refused` or `failed`.
    why: str | None = None
    #: Cancelled while leased: the message will not be retried.
    doomed: bool = False
    #: The id of the message, which identifies the message together with the topic (and the group of an own id).
    id: str = ""
    #: The shard that answered.
    shard: int = 0
    #: The verb of the call: put, cancel, reschedule …
    verb: str = ""

    @property
    def accepted(self) -> bool:
        """Reports success. A put: the message is or was delivered as requested, by this put or an earlier one (not
        if that was cancelled, expired or purged: nothing was stored). A cancel: the message will not be delivered. A
        reschedule: the message has the new due time. A settlement: the lease was valid."""
        if self.word is Word.EXISTS:
            return self.state not in LOST
        return self.word in ACCEPTED

    @property
    def time(self) -> datetime | None:
        """`time_ms` as a datetime in UTC."""
        return None if self.time_ms is None else as_datetime(self.time_ms)

    @classmethod
    def parse(cls, text: str, id: str = "", shard: int = 0, verb: str = "") -> "Outcome":
        """Parses the answer of a script for one message."""
        of = partial(cls, id=id, shard=shard, verb=verb)
        first, *words = text.replace("not dead", "not-dead", 1).split(" ")
        times = [int(one) for one in (first, *words) if one.isdigit()]
        if first.isdigit() or first == Word.CANCELLED and times:
            return of(Word.EXTENDED, times[0], doomed=bool(words))
        word = Word(first)
        if word in (Word.REFUSED, Word.FAILED):
            return of(word, why=" ".join(words))
        state = State(words[0]) if words and not words[0].isdigit() else None
        if len(times) == 2:
            return of(word, times[1], times[0], state)
        return of(word, times[0] if times else None, state=state)


def acked(outcome: Outcome, id: str) -> Outcome:
    """Turns the outcome of a put of a next message into that of the ack."""
    word, why = outcome.word, outcome.why
    if word in (Word.STORED, Word.READY, Word.EXISTS):
        word = Word.DELIVERED
    if word in (Word.REFUSED, Word.CONFLICT):
        word, why = Word.FAILED, f"the next message was not put: {why or f'conflict {outcome.state}'}"
    return Outcome(word, why=why, id=id, shard=outcome.shard, verb="ack")


class Incomplete(Exception):
    """Only some of the messages have an answer, because of `__cause__`.

    `outcomes` has one outcome per message, in order. Unless the cause is a ScriptError, messages with the word `unanswered` may
    have been processed: repeat only unanswered messages, with the same ids.
    """

    def __init__(self, outcomes: Sequence[Outcome], cause: Exception) -> None:
        super().__init__(f"{sum(one.word == 'unanswered' for one in outcomes)} of {len(outcomes)}: {cause}")
        self.outcomes = outcomes
