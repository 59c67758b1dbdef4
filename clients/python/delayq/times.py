"""Times and spans as callers give them, and the milliseconds that scripts take."""

from datetime import datetime, timedelta, timezone

from .errors import InvalidArgument

#: A point in time: an aware datetime, or milliseconds since the epoch.
When = datetime | int

#: The latest time that scripts take.
MAX_MS = 2**53 - 1
#: 2001-01-01. A smaller bare number is most likely seconds: taken for milliseconds, they lie in January 1970.
_DOUBTFUL_BEFORE_MS = 978_307_200_000
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MS = timedelta(milliseconds=1)


def epoch_ms(what: str, when: When, past_ok: bool = False) -> int:
    """A point in time in ms. A bare number before 2001 counts only with `past_ok`."""
    if isinstance(when, datetime):
        if when.utcoffset() is None:
            raise InvalidArgument(f"{what} has no time zone: {when.isoformat()}; give datetime(…, tzinfo=timezone.utc)")
        return _in_range(what, (when - _EPOCH) // _MS)
    if isinstance(when, bool) or not isinstance(when, int):
        raise InvalidArgument(f"{what} must be a datetime, or an int of ms since the epoch, not {when!r}")
    if 0 < when < _DOUBTFUL_BEFORE_MS and not past_ok:
        meant = f"if seconds were meant, give {when * 1000} ({as_datetime(when * 1000)}); " if when > 978_307_200 else ""
        raise InvalidArgument(f"{what} is {as_datetime(when)} as ms since the epoch: {meant}if not, give past_ok=True")
    return _in_range(what, when)


def range_ms(since: When | None, until: When | None, past_ok: bool = False) -> tuple[int, int]:
    """A range of times in ms, both ends included; all times where none are given."""
    from_ms = 0 if since is None else epoch_ms("since", since, past_ok)
    return from_ms, MAX_MS if until is None else epoch_ms("until", until, past_ok)


def span_ms(what: str, span: timedelta, min_ms: int = 0) -> int:
    """A span in ms, rounded up: nothing comes early."""
    if not isinstance(span, timedelta):
        raise InvalidArgument(f"{what} must be a timedelta, such as timedelta(seconds=30), not {span!r}")
    ms = -(-span // _MS)
    if ms < min_ms:
        raise InvalidArgument(f"{what} must be at least {min_ms} ms, not {span}")
    return ms


def difference_ms(what: str, by: timedelta) -> int:
    """A difference in ms, of either sign."""
    is_back = isinstance(by, timedelta) and by < timedelta(0)
    return -span_ms(what, -by) if is_back else span_ms(what, by)


def maybe_span_ms(what: str, span: timedelta | None, min_ms: int = 0) -> int | None:
    """The same; None stays None."""
    return None if span is None else span_ms(what, span, min_ms)


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
