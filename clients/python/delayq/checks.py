"""Arguments of every call: what is of the wrong type, or out of range, is refused by its name."""

from collections.abc import Collection
from reprlib import Repr

from .errors import InvalidArgument

_SHOWING = Repr()
_SHOWING.maxstring = _SHOWING.maxother = 80


def shown(value: object) -> str:
    """A value in an error, at most some 80 characters of it."""
    return _SHOWING.repr(value)


def flag(what: str, value: object) -> bool:
    """Nothing but True and False: "false" is true for Python."""
    if not isinstance(value, bool):
        raise InvalidArgument(f"{what} must be True or False, not {shown(value)}")
    return value


def whole(what: str, value: object, least: int, most: int) -> int:
    """An int of a range."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidArgument(f"{what} must be an int, not {shown(value)}")
    if not least <= value <= most:
        raise InvalidArgument(f"{what} must be {least} to {most}, not {shown(value)}")
    return int(value)


def text(what: str, value: object) -> str:
    """Any text that can be sent."""
    if not isinstance(value, str):
        raise InvalidArgument(f"{what} must be a str, not {shown(value)}")
    try:
        value.encode()
    except UnicodeEncodeError as fault:
        raise InvalidArgument(f"{what} has half of a character at {fault.start}: {shown(value[fault.start :])}") from None
    return value


def one_of(what: str, value: object, known: Collection[str]) -> str:
    """A word of those that are known."""
    if not isinstance(value, str) or value not in known:
        *words, last = known
        raise InvalidArgument(f"{what} must be {', '.join(words)} or {last}, not {shown(value)}")
    return value
