"""Policies of topics: defaults for messages, and flow control."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from .checks import flag, shown, whole
from .errors import InvalidArgument
from .message import Backoff
from .protocol import SETTINGS, SettingForm
from .settings import Setting, Settings
from .times import span_ms


@dataclass(frozen=True)
class Policy(Settings):
    """Settings of a topic. None means the default; in a change, no change."""

    def __post_init__(self) -> None:
        for setting, form in SETTINGS.items():
            if (value := getattr(self, setting)) is not None:
                _encode(setting, form, value)

    def changes(self, reset: Sequence[Setting], shards: int) -> list[bytes | str | int]:
        """Returns the fields and values for `configure` in one of so many shards: the changes, and the settings to reset."""
        if not isinstance(reset, (list, tuple, set, frozenset)) or any(one not in [*SETTINGS] for one in reset):
            raise InvalidArgument(f"reset must be a list of settings, of {', '.join(SETTINGS)}, not {shown(reset)}")
        if both := [setting for setting in reset if getattr(self, setting) is not None]:
            raise InvalidArgument(f"{both[0]} is both set and reset")
        args: list[bytes | str | int] = []
        for setting, form in SETTINGS.items():
            value = getattr(self, setting)
            if value is not None:
                # Each shard gets a share of a rate.
                args += [form.field, _encode(setting, form, value / shards if form.kind == "rate" else value)]
            elif setting in reset:
                args += [form.field, ""]
        return args

    @classmethod
    def read(cls, described: Sequence[bytes], shards: int) -> "Policy":
        """Decodes the reply of `describe` in one of so many shards."""
        stored = dict(zip(described[::2], described[1::2], strict=True))
        found = {setting: (form, stored.get(form.field.encode())) for setting, form in SETTINGS.items()}
        policy = cls(**{setting: _decode(form, raw) for setting, (form, raw) in found.items() if raw is not None})
        return policy if policy.rate is None else replace(policy, rate=policy.rate * shards)


def _encode(setting: str, form: SettingForm, value: Any) -> bytes | str | int:
    """Encodes a value for `configure`; refuses an invalid value."""
    least, most = form.least, form.most
    match form.kind:
        case "count":
            return whole(setting, value, int(least), int(most))
        case "span":
            return span_ms(setting, value, int(least), int(most))
        case "flag":
            return "1" if flag(setting, value) else ""
        case "rate":
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
                raise InvalidArgument(f"{setting} must be {least:g} to {most:g} a second in each shard, not {shown(value)}")
            return f"{value:.12f}"  # without an exponent, which scripts do not read
        case "backoff":
            if not isinstance(value, Backoff):
                raise InvalidArgument(f"{setting} must be a Backoff, not {shown(value)}")
            return value.encode()
    if not isinstance(value, str) or not any(re.fullmatch(word, value) for word in form.words):
        raise InvalidArgument(f"{setting} must be {', '.join(form.words)}, not {shown(value)}")
    return value


def _decode(form: SettingForm, raw: bytes) -> Any:
    match form.kind:
        case "count":
            return int(raw)
        case "span":
            return timedelta(milliseconds=int(raw))
        case "flag":
            return raw == b"1"
        case "rate":
            return float(raw)
        case "backoff":
            return Backoff.decode(raw)
    return raw.decode()
