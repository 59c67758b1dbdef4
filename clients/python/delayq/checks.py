"""Checks types and ranges of arguments, and names the argument in the error."""

from collections.abc import Collection
from reprlib import Repr

from .errors import InvalidArgument

_SHOWING = Repr()
_SHOWING.maxstring = _SHOWING.maxother = 80


def shown(value: object) -> str:
    """Formats a value for an error, about 80 characters."""
    return _SHOWING.repr(value)


def flag(what: str, value: object) -> bool:
    """Accepts only True and False, since "false" is true."""
    if not isinstance(value, bool):
        raise InvalidArgument(f"{what} must be True or False, not {shown(value)}")
    return value


def whole(what: str, value: object, least: int, most: int) -> int:
    """Accepts an int in a range."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidArgument(f"{what} must be an int, not {shown(value)}")
    if not least <= value <= most:
        raise InvalidArgument(f"{what} must be {least} to {most}, not {shown(value)}")
    return int(value)


def text(what: str, value: object) -> str:
    """Accepts text that UTF-8 can represent."""
    if not isinstance(value, str):
        raise InvalidArgument(f"{what} must be a str, not {shown(value)}")
    try:
        value.encode()
    except UnicodeEncodeError as fault:
        raise InvalidArgument(f"{what} has half of a character at {fault.start}: {shown(value[fault.start :])}") from None
    return value


def one_of(what: str, value: object, known: Collection[str]) -> str:
    """Accepts one of the known words."""
    if not isinstance(value, str) or value not in known:
        *words, last = known
        raise InvalidArgument(f"{what} must be {', '.join(words)} or {last}, not {shown(value)}")
    return value
