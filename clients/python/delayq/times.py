"""Times and spans as callers give them, and the milliseconds that scripts take."""

from datetime import datetime, timedelta, timezone

from .checks import flag, shown
from .errors import InvalidArgument

#: A point in time: an aware datetime, or milliseconds since the epoch.
When = datetime | int

#: The latest time that scripts take.
MAX_MS = 2**53 - 1
#: The longest span and the longest lease that scripts take.
MAX_SPAN_MS, MAX_LEASE_MS = 2**52, 24 * 3_600_000
MAX_WAIT_MS = 3650 * 24 * 3_600_000
#: 2001-01-01. A smaller bare number is most likely seconds: taken for milliseconds, they lie in January 1970.
_DOUBTFUL_BEFORE_MS = 978_307_200_000
#: The end of the year 9999. A larger bare number is most likely microseconds.
_LAST_DATE_MS = 253_402_300_799_999
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MS, _US = timedelta(milliseconds=1), timedelta(microseconds=1)


def epoch_ms(what: str, when: When, past_ok: bool = False) -> int:
    """A point in time in ms. A bare number before 2001 or behind the year 9999 counts only with `past_ok`."""
    if isinstance(when, datetime):
        if when.utcoffset() is None:
            raise InvalidArgument(f"{what} has no time zone: {when.isoformat()}; give datetime(…, tzinfo=timezone.utc)")
        return _in_range(what, (when - _EPOCH) // _MS)
    flag("past_ok", past_ok)
    if isinstance(when, bool) or not isinstance(when, int):
        raise InvalidArgument(f"{what} must be a datetime, or an int of ms since the epoch, not {shown(when)}")
    if 0 < when < _DOUBTFUL_BEFORE_MS and not past_ok:
        meant = f"if seconds were meant, give {when * 1000} ({as_datetime(when * 1000)}); " if when > 978_307_200 else ""
        raise InvalidArgument(f"{what} is {as_datetime(when)} as ms since the epoch: {meant}if not, give past_ok=True")
    if when > _LAST_DATE_MS and not past_ok:
        raise InvalidArgument(f"{what} is behind the year 9999 as ms: if µs were meant, give {shown(when // 1000)}")
    return _in_range(what, when)


def range_ms(since: When | None, until: When | None, past_ok: bool = False) -> tuple[int, int]:
    """A range of times in ms, both ends included; all times where none are given."""
    flag("past_ok", past_ok)
    from_ms = 0 if since is None else epoch_ms("since", since, past_ok)
    return from_ms, MAX_MS if until is None else epoch_ms("until", until, past_ok)


def span_ms(what: str, span: timedelta, min_ms: int = 0, max_ms: int = MAX_SPAN_MS) -> int:
    """A span in ms, rounded up: nothing comes early."""
    if not isinstance(span, timedelta):
        raise InvalidArgument(f"{what} must be a timedelta, such as timedelta(seconds=30), not {shown(span)}")
    ms = -(-(span // _US) // 1000)
    if ms < min_ms:
        raise InvalidArgument(f"{what} must be at least {min_ms} ms, not {span}")
    if ms > max_ms:
        raise InvalidArgument(f"{what} must be at most {max_ms} ms, not {span}")
    return ms


def wait_ms(what: str, wait: timedelta) -> int:
    """How long this process waits, in ms: at most ten years, which clocks of all systems can count."""
    return span_ms(what, wait, max_ms=MAX_WAIT_MS)


def difference_ms(what: str, by: timedelta) -> int:
    """A difference in ms, of either sign."""
    if isinstance(by, timedelta) and by < timedelta(0):
        return -span_ms(what, -max(by, timedelta(days=-999_999_999)))
    return span_ms(what, by)


def maybe_span_ms(what: str, span: timedelta | None, min_ms: int = 0, max_ms: int = MAX_SPAN_MS) -> int | None:
    """The same; None stays None."""
    return None if span is None else span_ms(what, span, min_ms, max_ms)


def lease_ms(lease: timedelta | None) -> int | None:
    """A lease; None is the topic's."""
    return maybe_span_ms("lease", lease, 1, MAX_LEASE_MS)


def as_datetime(ms: int) -> datetime:
    """Milliseconds since the epoch as an aware datetime; its last one for all that are later."""
    try:
        return _EPOCH + timedelta(milliseconds=ms)
    except OverflowError:
        return datetime.max.replace(tzinfo=timezone.utc)


def _in_range(what: str, ms: int) -> int:
    if not 1 <= ms <= MAX_MS:
        raise InvalidArgument(f"{what} must be 1 to {MAX_MS} ms since the epoch, not {ms}")
    return ms
