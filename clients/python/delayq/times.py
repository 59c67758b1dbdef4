"""Converts times and spans of callers to milliseconds."""

from datetime import datetime, timedelta, timezone

from .checks import flag, shown
from .errors import InvalidArgument
from .protocol import FIRST_MEANT_MS, LAST_MEANT_MS, MAX_LEASE_MS, MAX_SPAN_MS, MAX_TIME_MS

#: A point in time: an aware datetime, or milliseconds since the epoch.
When = datetime | int

MAX_WAIT_MS = 3650 * 24 * 3_600_000
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MS, _US = timedelta(milliseconds=1), timedelta(microseconds=1)


def epoch_ms(what: str, when: When, past_ok: bool = False) -> int:
    """Returns a point in time in ms. Ints before 2001 or after 9999 need `past_ok`."""
    if isinstance(when, datetime):
        if when.utcoffset() is None:
            raise InvalidArgument(f"{what} has no time zone: {when.isoformat()}; give datetime(…, tzinfo=timezone.utc)")
        return _in_range(what, (when - _EPOCH) // _MS)
    flag("past_ok", past_ok)
    if isinstance(when, bool) or not isinstance(when, int):
        raise InvalidArgument(f"{what} must be a datetime, or an int of ms since the epoch, not {shown(when)}")
    if 0 < when < FIRST_MEANT_MS and not past_ok:
        ms = when * 1000
        meant = f"if seconds were meant, give {ms} ({as_datetime(ms)}); " if ms > FIRST_MEANT_MS else ""
        raise InvalidArgument(f"{what} is {as_datetime(when)} as ms since the epoch: {meant}if not, give past_ok=True")
    if when > LAST_MEANT_MS and not past_ok:
        raise InvalidArgument(f"{what} is behind the year 9999 as ms: if µs were meant, give {shown(when // 1000)}")
    return _in_range(what, when)


def range_ms(since: When | None, until: When | None, past_ok: bool = False) -> tuple[int, int]:
    """Returns an inclusive range in ms, unlimited by default."""
    flag("past_ok", past_ok)
    from_ms = 0 if since is None else epoch_ms("since", since, past_ok)
    return from_ms, MAX_TIME_MS if until is None else epoch_ms("until", until, past_ok)


def span_ms(what: str, span: timedelta, min_ms: int = 0, max_ms: int = MAX_SPAN_MS) -> int:
    """Returns a span in ms, rounded up, so that no message is early."""
    if not isinstance(span, timedelta):
        raise InvalidArgument(f"{what} must be a timedelta, such as timedelta(seconds=30), not {shown(span)}")
    ms = -(-(span // _US) // 1000)
    if ms < min_ms:
        raise InvalidArgument(f"{what} must be at least {min_ms} ms, not {span}")
    if ms > max_ms:
        raise InvalidArgument(f"{what} must be at most {max_ms} ms, not {span}")
    return ms


def wait_ms(what: str, wait: timedelta) -> int:
    """Returns a wait of this process in ms, at most ten years: within the clock of every system."""
    return span_ms(what, wait, max_ms=MAX_WAIT_MS)


def difference_ms(what: str, by: timedelta) -> int:
    """Returns a difference in ms, of either sign."""
    if isinstance(by, timedelta) and by < timedelta(0):
        return -span_ms(what, -max(by, timedelta(days=-999_999_999)))
    return span_ms(what, by)


def maybe_span_ms(what: str, span: timedelta | None, min_ms: int = 0, max_ms: int = MAX_SPAN_MS) -> int | None:
    """As `span_ms`; None stays None."""
    return None if span is None else span_ms(what, span, min_ms, max_ms)


def lease_ms(lease: timedelta | None) -> int | None:
    """Returns a lease in ms; None selects the topic's lease."""
    return maybe_span_ms("lease", lease, 1, MAX_LEASE_MS)


def as_datetime(ms: int) -> datetime:
    """Returns an aware datetime; times after the year 9999 become the last datetime."""
    try:
        return _EPOCH + timedelta(milliseconds=ms)
    except OverflowError:
        return datetime.max.replace(tzinfo=timezone.utc)


def _in_range(what: str, ms: int) -> int:
    if not 1 <= ms <= MAX_TIME_MS:
        raise InvalidArgument(f"{what} must be 1 to {MAX_TIME_MS} ms since the epoch, not {ms}")
    return ms
