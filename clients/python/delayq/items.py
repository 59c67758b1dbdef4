"""What a call of a script is made of, and what it answers of one message."""

from collections.abc import Sequence
from typing import NamedTuple

#: None for what the script does where nothing is given.
Arg = bytes | str | int | None


class Call(NamedTuple):
    """One call of a script."""

    verb: str
    shard: int
    args: Sequence[Arg]


class Item(NamedTuple):
    """One message in a call: its place (a name, or a shard), what the call begins with, and its own arguments."""

    verb: str
    place: bytes | int
    head: tuple[Arg, ...]
    args: tuple[Arg, ...]
    id: str = ""


class Answer(NamedTuple):
    """What a script answered of one message, and when by Redis's clock where it says so."""

    raw: bytes
    shard: int
    now_us: int
