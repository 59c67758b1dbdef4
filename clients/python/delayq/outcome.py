"""What scripts answer."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Outcome:
    """What became of one message: a word, and what belongs to it. The README lists the words."""

    word: str
    #: When it is due; of what is over, when it ended; of a lease, its end. Ms since the epoch, on Redis's clock.
    time_ms: int | None = None
    #: When it was due before.
    old_ms: int | None = None
    #: The state that the answer names.
    state: str | None = None
    #: Why it was refused or failed.
    why: str | None = None
    #: A cancel came while it was leased: it will not be tried again.
    doomed: bool = False

    @classmethod
    def parse(cls, text: str) -> "Outcome":
        word, _, rest = text.partition(" ")
        words = rest.split()
        numbers = [int(n) for n in words if n.isdigit()]
        if word in ("refused", "failed"):
            return cls(word, why=rest)
        if word.isdigit() or word == "cancelled" and numbers:
            return cls("extended", time_ms=int(words[-1] if words else word), doomed=bool(words))
        if len(numbers) == 2:
            return cls(word, old_ms=numbers[0], time_ms=numbers[1])
        return cls(word, numbers[0] if numbers else None, state=words[0] if len(words) == 2 else None)


@dataclass(frozen=True)
class Put:
    """What became of a put, and what finds the message again."""

    id: str
    shard: int
    outcome: Outcome

    @property
    def accepted(self) -> bool:
        """Whether the message is kept, by this put or an earlier one."""
        return self.outcome.word in ("stored", "ready", "exists")
