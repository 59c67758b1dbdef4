"""Names of messages, topics, groups and namespaces."""

import re
import secrets
import time
import uuid
from urllib.parse import unquote_to_bytes

from .checks import shown, text as _checked
from .errors import InvalidArgument
from .protocol import GENERATED_ID, NAMES

#: Prefix of the text of a name outside the rules; ASCII letters, digits and . _ - / stand for themselves, other bytes are % and
#: two hex digits.
_ODD = "~odd-"
#: The form of each kind of name, and how many bytes it may have.
_FORMS = {what: (re.compile(f"{characters}+"), max_bytes) for what, (characters, max_bytes) in NAMES.items()}


def name(what: str, text: str) -> str:
    """Checks a name against the form of the kind."""
    form, max_bytes = _FORMS.get(what, _FORMS["id"])
    if not form.fullmatch(_text(what, text)) or len(text.encode()) > max_bytes:
        characters = form.pattern.removesuffix("+")
        raise InvalidArgument(f"{what} {text[:40]!r} is not 1 to {max_bytes} bytes of the form {characters}")
    return text


def generate_id(shard: int) -> str:
    """Returns a UUIDv7 with the shard in the 12 bits after the version. The time only orders ids."""
    time_ms = time.time_ns() // 1_000_000 % (1 << 45)
    return f"~{uuid.UUID(int=time_ms << 80 | 7 << 76 | shard << 64 | 2 << 62 | secrets.randbits(62))}"


def stored_id(id: str, group: str | None) -> bytes:
    """The name of a message in keys and calls: the id; for an own id in a group, followed by 0x1F and the group."""
    raw = id_bytes(id)
    if group is None:
        return raw
    suffix = b"\x1f" + name("group", group).encode()
    return raw + suffix if _is_own(raw) else raw


def id_and_group(stored: bytes) -> tuple[str, str | None]:
    """Id and group of a stored name. A generated id and a name outside the rules have no group."""
    raw, mark, group = stored.partition(b"\x1f")
    if mark and not generated(stored) and _is_own(raw) and _is_own(group):
        return id_text(raw), group.decode()
    return id_text(stored), None


def id_bytes(text: str) -> bytes:
    """Returns the bytes of an id: 16 for a generated id, the text of an own id (a leading ~ is doubled in `text`), or the bytes
    of an ~odd- name."""
    if _text("id", text).startswith(_ODD):
        return odd_bytes("id", text)
    if text.startswith("~") and not text.startswith("~~"):
        return _uuid(text).bytes
    return name("id", text.removeprefix("~")).encode()


def id_text(raw: bytes) -> str:
    """The text of an id: the inverse of `id_bytes`."""
    if generated(raw):
        return f"~{uuid.UUID(bytes=raw)}"
    return "~" * raw.startswith(b"~") + raw.decode() if _is_own(raw) else odd_text(raw)


def new_id(text: str) -> bytes:
    """The bytes of an id that a put may create."""
    raw = id_bytes(text)
    if text.startswith(_ODD) and not generated(raw) and not _is_own(raw):
        raise InvalidArgument(f"id {text[:40]!r} is outside the rules: it can be cancelled, not put")
    return raw


def topic_arg(topic: str) -> str | bytes:
    """Encodes a topic for a call: the text, or the bytes of an ~odd- name."""
    return odd_bytes("topic", topic) if _text("topic", topic).startswith(_ODD) else name("topic", topic)


def topic_text(raw: bytes) -> str:
    """Returns the text of a stored topic, valid or not."""
    return raw.decode() if _fits("topic", raw) else odd_text(raw)


def odd_text(raw: bytes) -> str:
    """Returns the text of a name outside the rules, stored by another program."""
    return _ODD + "".join(chr(byte) if re.match(rb"[A-Za-z0-9._/-]", bytes([byte])) else f"%{byte:02X}" for byte in raw)


def odd_bytes(what: str, text: str) -> bytes:
    """The bytes that an ~odd- text names."""
    if not re.fullmatch(r"~odd-([^%]|%[0-9A-Fa-f]{2})*", text, re.S):
        raise InvalidArgument(f"{what} {text[:40]!r} is not an ~odd- name: write each % as %25")
    return unquote_to_bytes(_checked(what, text).removeprefix(_ODD))


def _is_own(raw: bytes) -> bool:
    """Reports whether the bytes are a valid own id or group."""
    return not generated(raw) and _fits("id", raw)


def _fits(what: str, raw: bytes) -> bool:
    """Reports whether the bytes are a valid name of this kind."""
    form, max_bytes = _FORMS[what]
    try:
        return len(raw) <= max_bytes and form.fullmatch(raw.decode()) is not None
    except UnicodeDecodeError:
        return False


def _uuid(text: str) -> uuid.UUID:
    if not re.fullmatch(GENERATED_ID, text):
        raise InvalidArgument(f"generated id {text[:40]!r} is not of the form {GENERATED_ID}")
    return uuid.UUID(text[1:])


def generated(raw: bytes) -> bool:
    return len(raw) == 16 and raw[0] < 0x20


def _text(what: str, text: str) -> str:
    if not isinstance(text, str):
        raise InvalidArgument(f"{what} must be a str, not {shown(text)}")
    return text
