"""The same message at several dates, under one handle."""

from dataclasses import replace
from datetime import timedelta

from .errors import InvalidArgument
from .message import Message
from .times import When

#: A put has as many messages at most.
_MAX_DUES = 500
#: The ids of the messages have a number behind it.
_MAX_ID_BYTES = 124


def series(message: Message, *dues: When | timedelta) -> list[Message]:
    """Returns a message for each due time, a time or a delay: `ID/1`, `ID/2` and so on, in the group `ID`.

    The group is the handle: `client.group(ID)` lists, moves and cancels all that is pending of the series.
    """
    if not 1 <= len(dues) <= _MAX_DUES:
        raise InvalidArgument(f"a series has 1 to {_MAX_DUES} due times, not {len(dues)}")
    if message.group is not None:
        raise InvalidArgument("a series is a group of its own: leave the group out")
    id = message.id
    if id is None or id.startswith("~") or len(id.encode()) > _MAX_ID_BYTES:
        raise InvalidArgument(f"a series needs an id of your own, of 1 to {_MAX_ID_BYTES} bytes that do not begin with ~")
    return [_one(message, id, n, due) for n, due in enumerate(dues, 1)]


def _one(message: Message, id: str, n: int, due: When | timedelta) -> Message:
    at, after = (None, due) if isinstance(due, timedelta) else (due, None)
    return replace(message, id=f"{id}/{n}", group=id, at=at, after=after)
