"""What scripts answer."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Outcome:
    """What became of one message: a word, and what belongs to it. The README lists the words."""

    word: str
    #: When it is due; of what is over, when it ended; of a lease, its end. In ms, on Redis's clock.
    time_ms: int | None = None
    #: When it was due before.
    old_ms: int | None = None
    #: The state that the answer names.
    state: str | None = None
    #: Why it was refused or failed.
    why: str | None = None
    #: A cancel came while it was leased: it will not be tried again.
    doomed: bool = False
    #: Of a put: what finds the message again, and where it is.
    id: str = ""
    shard: int = 0

    @property
    def accepted(self) -> bool:
        """Of a put: whether the message is kept, by this one or an earlier one."""
        return self.word in ("stored", "ready", "exists")

    @classmethod
    def parse(cls, text: str) -> "Outcome":
        word, *words = text.split(" ")
        times = [int(one) for one in (word, *words) if one.isdigit()]
        if word in ("refused", "failed"):
            return cls(word, why=" ".join(words))
        if word.isdigit() or word == "cancelled" and times:
            return cls("extended", times[0], doomed=bool(words))
        if len(times) == 2:
            return cls(word, times[1], times[0])
        return cls(word, times[0] if times else None, state=words[0] if len(words) == 2 else None)
