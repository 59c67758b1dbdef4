"""Arguments and answers of script calls."""

from collections.abc import Sequence
from typing import NamedTuple

#: None selects the default of the script.
Arg = bytes | str | int | None


class Call(NamedTuple):
    """One call of a script."""

    verb: str
    shard: int
    args: Sequence[Arg]


class Item(NamedTuple):
    """One message in a call: place (a name, or a shard), first arguments of the call, and arguments of the message."""

    verb: str
    place: bytes | int
    head: tuple[Arg, ...]
    args: tuple[Arg, ...]
    id: str = ""


class Answer(NamedTuple):
    """The answer of a script for one message, and the Redis time, if known."""

    raw: bytes
    shard: int
    now_us: int
