"""The policy of a topic: what its messages fall back to, and how it is handed out."""

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
    """Settings of a topic. None: at its default; in a change: left as it is."""

    #: 0: no bound. Default 16.
    max_attempts: int | None = None
    #: 1 ms to 24 h. Default 30 s.
    lease: timedelta | None = None
    #: Default exponential, 1 s to 10 min.
    backoff: Backoff | None = None
    #: How long after its due time a message expires; zero: never. Default never.
    expire_after: timedelta | None = None
    #: How long a cancelled id is remembered. Default 1 h.
    remember_cancelled: timedelta | None = None
    #: How long another finished id of the producer's own is remembered. Default 60 s.
    remember_own: timedelta | None = None
    #: How long a finished generated id is remembered. Default not at all.
    remember_generated: timedelta | None = None
    #: What becomes of a repeated put whose first try may be forgotten. Default "deliver".
    repeats: Literal["deliver", "refuse"] | None = None
    #: How clients that can compress payloads do it: "none", "zstd" or "zstd:" and a dictionary's id. Default "none".
    codec: str | None = None
    #: A paused topic hands nothing out. Default False.
    paused: bool | None = None
    #: At most so many messages are handed out a second, all shards together. Default no bound.
    rate: float | None = None
    #: About how many events each shard keeps of what happened to messages, for `delayq log`: at most 100,000. Default 0.
    history: int | None = None
    #: How long it keeps them: at least 1 s. Default 7 days.
    history_for: timedelta | None = None
    #: How long a dead letter is kept, until a sweep deletes it; zero: until it is purged or replayed. Default zero.
    dead_for: timedelta | None = None
    #: How many dead letters each shard keeps: sweeps delete the oldest of more; 0: all. Default 0.
    dead_max: int | None = None
    #: What writes are answered after: "memory", "disk" (the master's append-only file) or "replica:1" to "replica:9" (so many
    #: replicas). Default "memory".
    durability: str | None = None

    def __post_init__(self) -> None:
        for setting, form in _FORMS.items():
            if (value := getattr(self, setting)) is not None:
                form.encode(value)

    def changes(self, reset: Sequence[Setting], shards: int) -> list[bytes | str | int]:
        """Fields and values as `configure` takes them in each of so many shards: what is set here, and what goes back to
        its default."""
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
        """Reads what `describe` answers in one of so many shards."""
        stored = dict(zip(described[::2], described[1::2], strict=True))
        found = {setting: (form, stored.get(form.field.encode())) for setting, form in _FORMS.items()}
        policy = cls(**{setting: form.decode(raw) for setting, (form, raw) in found.items() if raw is not None})
        return policy if policy.rate is None else replace(policy, rate=policy.rate * shards)


class _Form(NamedTuple):
    """How a setting is stored: its field, and what makes its value text and back. What cannot be its value is refused."""

    field: str
    encode: Callable[[Any], bytes | str | int]
    decode: Callable[[bytes], Any]

    def encoded(self, setting: str, value: Any, shards: int) -> bytes | str | int:
        """A value as `configure` takes it. Every shard gets its part of a rate."""
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
