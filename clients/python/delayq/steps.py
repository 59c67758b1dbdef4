"""Operations in bounded steps: each reply says where the next step begins."""

import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from .items import Arg

#: Maximum messages promoted per call: a call delays other callers by a few milliseconds at most.
PROMOTED = 100


async def in_steps(
    call: Callable[[str, int, Sequence[Arg]], Awaitable[Any]], verb: str, shard: int,
    head: Sequence[Arg], times: tuple[int, int], most: int, total: float = math.inf,
) -> int:
    """Calls a script of one shard, each time for at most `most` messages, until it is done or has changed `total`. Returns the
    number of messages changed."""
    changed = 0
    at, last = times
    word, entry = b"more", b""
    while word == b"more" and changed < total:
        word, some, _, at, entry = await call(verb, shard, [*head, at, last, entry, int(min(most, total - changed))])
        changed += some
    return changed
