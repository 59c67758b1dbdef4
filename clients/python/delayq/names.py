"""Names: of messages, topics, groups and namespaces."""

import re
import secrets
import time
import uuid

from .checks import shown
from .errors import InvalidArgument

#: Ids and groups may be any text but control characters and halves of characters.
_PRINTABLE = "[^\x00-\x1f\x7f-\x9f\ud800-\udfff]{1,128}"
_FORMS = {
    "topic": "[A-Za-z0-9._/-]{1,128}",
    "namespace": "[A-Za-z0-9_-]{1,32}",
    "node": "[A-Za-z0-9_-]{1,32}",
    "header name": "[!-~]{1,255}",
    "generated id": "(?i)~[01][0-9a-f]{7}-[0-9a-f]{4}-7[0-9a-f]{3}(-[0-9a-f]{4}){2}[0-9a-f]{8}",
}


def name(what: str, text: str) -> str:
    """Checks a name: an id or a group of at most 128 bytes, or one of those that have a form of their own."""
    form = _FORMS.get(what, _PRINTABLE)
    if not re.fullmatch(form, _text(what, text)) or form == _PRINTABLE and len(text.encode()) > 128:
        raise InvalidArgument(f"{what} {text[:40]!r} is not of the form {form!a}")
    return text


def generate_id(shard: int) -> str:
    """A UUIDv7 that carries its shard in the 12 bits behind the version. The time orders ids, no more."""
    time_ms = time.time_ns() // 1_000_000 % (1 << 45)
    return f"~{uuid.UUID(int=time_ms << 80 | 7 << 76 | shard << 64 | 2 << 62 | secrets.randbits(62))}"


def stored_id(id: str, group: str | None) -> bytes:
    """The name of a message in keys and calls: its id, of an own one in a group with 0x1F and the group behind it."""
    raw = id_bytes(id)
    if group is None:
        return raw
    suffix = b"\x1f" + name("group", group).encode()
    return raw if generated(raw) else raw + suffix


def id_and_group(stored: bytes) -> tuple[str, str | None]:
    """What such a name says. That of a generated id names no group."""
    if generated(stored):
        return id_text(stored), None
    raw, mark, group = stored.partition(b"\x1f")
    return id_text(raw), group.decode() if mark else None


def id_bytes(text: str) -> bytes:
    """The bytes of an id: 16 of a generated one, or those of an own one, whose first ~ is doubled as text."""
    if _text("id", text).startswith("~") and not text.startswith("~~"):
        return uuid.UUID(name("generated id", text)[1:]).bytes
    return name("id", text.removeprefix("~")).encode()


def id_text(raw: bytes) -> str:
    """The same as text: ~ and a UUID; of an own id itself, with one more ~ where it begins with one."""
    if generated(raw):
        return f"~{uuid.UUID(bytes=raw)}"
    return "~" * raw.startswith(b"~") + raw.decode()


def generated(raw: bytes) -> bool:
    return len(raw) == 16 and raw[0] < 0x20


def _text(what: str, text: str) -> str:
    if not isinstance(text, str):
        raise InvalidArgument(f"{what} must be a str, not {shown(text)}")
    return text
