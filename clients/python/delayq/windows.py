"""Due times that are spread evenly by id, with the same result in every client."""

import re
from datetime import datetime, timedelta, timezone
from hashlib import sha256
from zoneinfo import ZoneInfo

from .checks import shown, text
from .errors import InvalidArgument
from .times import When, as_datetime, epoch_ms, span_ms

_WINDOW = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d) (.*)", re.A | re.S)
_ZONE = re.compile(r"[A-Za-z][\w+-]*(/[\w+-]+)*", re.A)
_DAY_S = 86_400
#: A zone skips one day at most; a window occurs on the next.
_DAYS_AHEAD = 4


def jitter(id: str, longest: timedelta) -> timedelta:
    """Returns a delay from 0 up to `longest`, the same for each repeat with this id."""
    return timedelta(milliseconds=_offset_ms(id, span_ms("longest", longest)))


def between(window: str, id: str, earliest: When | None = None) -> datetime:
    """Returns the first time, from `earliest` (now) on, at which an id's turn comes in a daily window.

    A window is `09:00-10:00 Europe/Berlin`; one whose end is before its start crosses midnight. Each id has its own
    offset in the window, so many ids are spread evenly, and a repeat before that time returns the same time. A window
    that lies in the hour that the clocks skip does not occur that day.
    """
    start, end, zone = _read(window)
    from_ms = epoch_ms("earliest", datetime.now(timezone.utc) if earliest is None else earliest)
    today = (from_ms // 1000 + _utc_offset(zone, from_ms // 1000)) // _DAY_S
    for day in range(today - 1, today + _DAYS_AHEAD + 1):
        opens, closes = _on(day, start, end, zone)
        due_ms = opens * 1000 + _offset_ms(id, max(closes - opens, 0) * 1000)
        if opens < closes and due_ms >= from_ms:
            return as_datetime(due_ms)
    raise InvalidArgument(f"no window {window} opens after {as_datetime(from_ms)}")


def _read(window: str) -> tuple[int, int, ZoneInfo]:
    parts = _WINDOW.fullmatch(text("window", window))
    if parts is None:
        raise InvalidArgument(f"{shown(window)} is not a window: write HH:MM-HH:MM ZONE, as 09:00-10:00 Europe/Berlin")
    start, end = (60 * (60 * int(parts[n]) + int(parts[n + 1])) for n in (1, 3))
    if start == end:
        raise InvalidArgument(f"the window {shown(window)} is empty: its end is its start")
    try:
        if _ZONE.fullmatch(parts[5]):
            return start, end, ZoneInfo(parts[5])
    except (OSError, ValueError, LookupError):
        pass
    raise InvalidArgument(f"unknown time zone {shown(parts[5])} in a window; a machine without zones needs the package tzdata")


def _on(day: int, start: int, end: int, zone: ZoneInfo) -> tuple[int, int]:
    """Returns both ends of the window that begins on a day, in seconds since the epoch."""
    first, again = _instants(day * _DAY_S + start, zone)
    closes, _ = _instants((day + (end < start)) * _DAY_S + end, zone)
    return again if again < closes else first, closes


def _instants(wall: int, zone: ZoneInfo) -> tuple[int, int]:
    """Returns the first and the last instant at which the zone's clock shows a time; the end of the gap for a skipped time."""
    offsets = {_utc_offset(zone, wall - _DAY_S), _utc_offset(zone, wall + _DAY_S)}
    shown_at = [wall - offset for offset in offsets if _utc_offset(zone, wall - offset) == offset]
    if shown_at:
        return min(shown_at), max(shown_at)
    before, after = wall - _DAY_S, wall + _DAY_S
    while after - before > 1:
        middle = (before + after) // 2
        if _utc_offset(zone, middle) == _utc_offset(zone, before):
            before = middle
        else:
            after = middle
    return after, after


def _utc_offset(zone: ZoneInfo, second: int) -> int:
    offset = as_datetime(second * 1000).astimezone(zone).utcoffset()
    return 0 if offset is None else int(offset.total_seconds())


def _offset_ms(id: str, span: int) -> int:
    first = int.from_bytes(sha256(text("id", id).encode()).digest()[:8], "big")
    return span * first >> 64
