"""Why a message was not delivered: a text that scripts keep with it."""

import traceback

from .errors import Bury, InvalidArgument

#: Scripts keep no more of a reason.
MAX_BYTES = 1000


def reason_text(reason: str) -> str:
    """A reason as it is sent. Halves of characters are written out: no reason keeps a message from being buried."""
    if not isinstance(reason, str):
        raise InvalidArgument(f"reason must be a str, not {type(reason).__name__}")
    return _first(reason.encode(errors="backslashreplace"), MAX_BYTES)


def reason_of(fault: BaseException) -> str:
    """What a handler raised, and behind it as much of the traceback as fits, its innermost frames."""
    if isinstance(fault, Bury):
        return reason_text(str(fault))
    said = _encoded(traceback.format_exception_only(fault)).strip()
    head = _first(said, MAX_BYTES // 2)
    frames = _encoded(traceback.format_tb(fault.__traceback__)).splitlines()
    left = MAX_BYTES - len(head.encode())
    tail: list[str] = []
    while frames and left > len(frames[-1]):
        left -= len(frames[-1]) + 1
        tail.insert(0, frames.pop().decode())
    return "\n".join([head, *tail])


def _encoded(lines: list[str]) -> bytes:
    return "".join(lines).encode(errors="backslashreplace")


def _first(text: bytes, max_bytes: int) -> str:
    """As many whole characters as fit."""
    return text[:max_bytes].decode(errors="ignore")
