"""Reasons for the dead letters."""

import traceback
from pathlib import Path

from .errors import Bury, InvalidArgument
from .protocol import MAX_REASON_BYTES

#: The file that calls handlers, whose frames are left out.
_DRIVER = str(Path(__file__).with_name("runtime.py"))


def reason_text(reason: str) -> str:
    """Encodes a reason. Lone surrogates are escaped, so that every message can be buried."""
    if not isinstance(reason, str):
        raise InvalidArgument(f"reason must be a str, not {type(reason).__name__}")
    return _first(_encoded(reason), MAX_REASON_BYTES)


def reason_of(fault: BaseException) -> str:
    """Formats the exception of a handler in one line, with as many frames as fit, innermost first."""
    if isinstance(fault, Bury):
        return reason_text(str(fault))
    reason = _first(_encoded(" ".join("".join(traceback.format_exception_only(fault)).split())), MAX_REASON_BYTES // 2)
    for frame in reversed(traceback.extract_tb(fault.__traceback__)):
        if frame.filename == _DRIVER:
            break
        longer = f"{reason}; {frame.filename}:{frame.lineno} in {frame.name}: {frame.line or ''}".rstrip(": ")
        if len(_encoded(longer)) > MAX_REASON_BYTES:
            break
        reason = longer
    return reason_text(reason)


def _encoded(text: str) -> bytes:
    return text.encode(errors="backslashreplace")


def _first(text: bytes, max_bytes: int) -> str:
    """Truncates at a character boundary."""
    return text[:max_bytes].decode(errors="ignore")
