"""The policy of a topic: what its messages fall back to, and how it is handed out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any, Literal, NamedTuple

from .errors import InvalidArgument
from .message import Backoff
from .times import span_ms

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

    def changes(self, reset: Sequence[Setting], shards: int) -> list[bytes | str | int]:
        """Fields and values as `configure` takes them in each of so many shards: what is set here, and what goes back to
        its default."""
        if isinstance(reset, str) or not _FORMS.keys() >= set(reset):
            raise InvalidArgument(f"reset must be a list of settings, of {', '.join(_FORMS)}, not {reset!r}")
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
    """How a setting is stored: its field, the type of its value, and what makes it text and back."""

    field: str
    kind: type | tuple[type, ...]
    encode: Callable[[Any], bytes | str | int]
    decode: Callable[[bytes], Any]

    def encoded(self, setting: str, value: Any, shards: int) -> bytes | str | int:
        """A value as `configure` takes it. Every shard gets its part of a rate."""
        fits = isinstance(value, self.kind) and isinstance(value, bool) == (self.kind is bool)
        if not fits:
            raise InvalidArgument(f"{setting} cannot be {value!r}")
        return self.encode(value / shards if setting == "rate" else value)


def _span(setting: str, min_ms: int = 0) -> _Form:
    def decode(raw: bytes) -> timedelta:
        return timedelta(milliseconds=int(raw))

    return _Form(f"{setting}_ms", object, partial(span_ms, setting, min_ms=min_ms), decode)


_FORMS: dict[str, _Form] = {
    "max_attempts": _Form("max_attempts", int, int, int),
    "lease": _span("lease", 1),
    "backoff": _Form("backoff", Backoff, Backoff.encode, Backoff.decode),
    "expire_after": _span("expire_after"),
    "remember_cancelled": _span("remember_cancelled"),
    "remember_own": _span("remember_own"),
    "remember_generated": _span("remember_generated"),
    "repeats": _Form("repeats", str, str, bytes.decode),
    "codec": _Form("codec", str, str, bytes.decode),
    "paused": _Form("paused", bool, lambda paused: "1" if paused else "", lambda raw: raw == b"1"),
    # Without an exponent, which scripts do not read.
    "rate": _Form("rate", (int, float), "{:.12f}".format, float),
    "history": _Form("history", int, int, int),
    "history_for": _span("history_for", 1000),
    "dead_for": _span("dead_for"),
    "dead_max": _Form("dead_max", int, int, int),
    "durability": _Form("durability", str, str, bytes.decode),
}
