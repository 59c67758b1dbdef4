"""Policies of topics: defaults for messages, and flow control."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any, Literal, NamedTuple

from .checks import flag, shown, whole
from .errors import InvalidArgument
from .message import Backoff
from .times import MAX_LEASE_MS, MAX_SPAN_MS, span_ms

Setting = Literal[
    "max_attempts", "lease", "backoff", "expire_after", "remember_cancelled", "remember_own", "remember_generated",
    "repeats", "codec", "paused", "rate", "history", "history_for", "dead_for", "dead_max", "durability",
]


@dataclass(frozen=True)
class Policy:
    """Settings of a topic. None means the default; in a change, no change."""

    #: Maximum attempts; 0 means no limit. Default 16.
    max_attempts: int | None = None
    #: 1 ms to 24 h. Default 30 s.
    lease: timedelta | None = None
    #: Default exponential, 1 s to 10 min.
    backoff: Backoff | None = None
    #: Time from due time to expiry; zero means never. Default never.
    expire_after: timedelta | None = None
    #: Retention of cancelled ids for deduplication. Default 1 h.
    remember_cancelled: timedelta | None = None
    #: Retention of other finished own ids. Default 60 s.
    remember_own: timedelta | None = None
    #: Retention of finished generated ids. Default zero.
    remember_generated: timedelta | None = None
    #: Handling of a repeated put whose first attempt may be forgotten. Default "deliver".
    repeats: Literal["deliver", "refuse"] | None = None
    #: Compression of clients that compress payloads: "none", "zstd" or "zstd:" and the id of a dictionary. Default "none".
    codec: str | None = None
    #: Stops deliveries. Default False.
    paused: bool | None = None
    #: Maximum deliveries per second over all shards. Default unlimited.
    rate: float | None = None
    #: Approximate number of events per shard kept for `delayq log`: at most 100,000. Default 0.
    history: int | None = None
    #: Retention of events: at least 1 s. Default 7 days.
    history_for: timedelta | None = None
    #: Retention of dead letters; zero keeps dead letters until purged or replayed. Default zero.
    dead_for: timedelta | None = None
    #: Maximum dead letters per shard, oldest deleted first; 0 means no limit. Default 0.
    dead_max: int | None = None
    #: Confirmation required for writes: "memory", "disk" (append-only file of the master) or "replica:1" to "replica:9" (number
    #: of replicas). Default "memory".
    durability: str | None = None

    def __post_init__(self) -> None:
        for setting, form in _FORMS.items():
            if (value := getattr(self, setting)) is not None:
                form.encode(value)

    def changes(self, reset: Sequence[Setting], shards: int) -> list[bytes | str | int]:
        """Returns the fields and values for `configure` in one of so many shards: the changes, and the settings to reset."""
        if not isinstance(reset, (list, tuple, set, frozenset)) or any(one not in [*_FORMS] for one in reset):
            raise InvalidArgument(f"reset must be a list of settings, of {', '.join(_FORMS)}, not {shown(reset)}")
        if both := [setting for setting in reset if getattr(self, setting) is not None]:
            raise InvalidArgument(f"{both[0]} is both set and reset")
        args: list[bytes | str | int] = []
        for setting, form in _FORMS.items():
            value = getattr(self, setting)
            if value is not None:
                args += [form.field, form.encoded(setting, value, shards)]
            elif setting in reset:
                args += [form.field, ""]
        return args

    @classmethod
    def read(cls, described: Sequence[bytes], shards: int) -> "Policy":
        """Decodes the reply of `describe` in one of so many shards."""
        stored = dict(zip(described[::2], described[1::2], strict=True))
        found = {setting: (form, stored.get(form.field.encode())) for setting, form in _FORMS.items()}
        policy = cls(**{setting: form.decode(raw) for setting, (form, raw) in found.items() if raw is not None})
        return policy if policy.rate is None else replace(policy, rate=policy.rate * shards)


class _Form(NamedTuple):
    """The stored form of a setting: field, encoder and decoder. The encoder refuses invalid values."""

    field: str
    encode: Callable[[Any], bytes | str | int]
    decode: Callable[[bytes], Any]

    def encoded(self, setting: str, value: Any, shards: int) -> bytes | str | int:
        """Encodes a value for `configure`. Each shard gets a share of a rate."""
        return self.encode(value / shards if setting == "rate" else value)


def _span(setting: str, min_ms: int = 0, max_ms: int = MAX_SPAN_MS) -> _Form:
    def decode(raw: bytes) -> timedelta:
        return timedelta(milliseconds=int(raw))

    return _Form(f"{setting}_ms", partial(span_ms, setting, min_ms=min_ms, max_ms=max_ms), decode)


def _count(setting: str, most: int) -> _Form:
    return _Form(setting, partial(whole, setting, least=0, most=most), int)


def _word(setting: str, form: str, told: str) -> _Form:
    def encode(value: Any) -> str:
        if not isinstance(value, str) or not re.fullmatch(form, value, re.A):
            raise InvalidArgument(f"{setting} must be {told}, not {shown(value)}")
        return value

    return _Form(setting, encode, bytes.decode)


def _backoff(value: Any) -> bytes:
    if not isinstance(value, Backoff):
        raise InvalidArgument(f"backoff must be a Backoff, not {shown(value)}")
    return value.encode()


def _rate(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 1e-9 <= value <= 1e9:
        raise InvalidArgument(f"rate must be 1e-9 to 1e9 messages a second in each shard, not {shown(value)}")
    return f"{value:.12f}"  # without an exponent, which scripts do not read


def _paused(value: Any) -> str:
    return "1" if flag("paused", value) else ""


_FORMS: dict[str, _Form] = {
    "max_attempts": _count("max_attempts", 65535),
    "lease": _span("lease", 1, MAX_LEASE_MS),
    "backoff": _Form("backoff", _backoff, Backoff.decode),
    "expire_after": _span("expire_after"),
    "remember_cancelled": _span("remember_cancelled"),
    "remember_own": _span("remember_own"),
    "remember_generated": _span("remember_generated"),
    "repeats": _word("repeats", "deliver|refuse", "deliver or refuse"),
    "codec": _word("codec", r"none|zstd(:\d{1,10})?", "none, zstd or zstd:DICTIONARY"),
    "paused": _Form("paused", _paused, lambda raw: raw == b"1"),
    "rate": _Form("rate", _rate, float),
    "history": _count("history", 100_000),
    "history_for": _span("history_for", 1000),
    "dead_for": _span("dead_for"),
    "dead_max": _count("dead_max", 2**32 - 1),
    "durability": _word("durability", "memory|disk|replica:[1-9]", "memory, disk or replica:1 to replica:9"),
}
