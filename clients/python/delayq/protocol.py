"""The tables of the protocol: limits, names, states, words, refusals, URLs, forms of settings.

Written from the tables of delayq-core, never by hand: DELAYQ_UPDATE=1 cargo test -p delayq-core --test answers -- description.
"""

from enum import Enum
from typing import NamedTuple

MAX_IDS_A_CALL = 500
MAX_BYTES_A_CALL = 4_194_304
MAX_PAYLOAD_BYTES = 1_048_576
MAX_HEADER_BYTES = 16_384
MAX_REASON_BYTES = 1000
MAX_ATTEMPTS = 65_535
MAX_DELAY_MS = 4_294_967_295
MAX_DELAYS = 32
MAX_LEASE_MS = 86_400_000
MAX_SPAN_MS = 4_503_599_627_370_496
MAX_TIME_MS = 9_007_199_254_740_991
MAX_SHARDS = 4096
MAX_CONCURRENCY = 10_000
MAX_TIMEOUT_MS = 86_400_000
DEFAULT_NAMESPACE = "dq"
DEFAULT_MAX_PAYLOAD_BYTES = 262_144
DEFAULT_CONCURRENCY = 10
#: Ints outside are mostly seconds or microseconds mistaken for milliseconds.
FIRST_MEANT_MS, LAST_MEANT_MS = 978_307_200_000, 253_402_300_799_999


class Word(str, Enum):
    """The result of a call for one message. Each word equals its text."""

    STORED = "stored"
    READY = "ready"
    AGAIN = "again"
    EXISTS = "exists"
    CONFLICT = "conflict"
    CHANGED = "changed"
    UNKNOWN = "unknown"
    LEASED = "leased"
    STALE = "stale"
    REFUSED = "refused"
    CANCELLED = "cancelled"
    DEAD = "dead"
    FINISHED = "finished"
    FAILED = "failed"
    DELAYED = "delayed"
    EXTENDED = "extended"
    EXPIRED = "expired"
    DELIVERED = "delivered"
    BURIED = "buried"
    EXPIRED_MESSAGE = "expired-message"
    NOT_DEAD = "not-dead"
    UNANSWERED = "unanswered"

    __str__ = str.__str__


#: The words of success; a message that exists may be lost.
ACCEPTED = {
    "stored", "ready", "again", "exists", "cancelled", "delayed", "extended", "delivered", "buried", "expired-message",
}
#: Refusals that pass once Redis recovers.
PASSING = {
    "ASK", "BUSY", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "MISCONF", "MOVED", "NOAUTH",
    "NOREPLICAS", "NOSCRIPT", "OOM", "READONLY", "TRYAGAIN", "WRONGPASS",
}
#: Verbs that wait as the topic requires, and verbs that wait as every topic of the shard requires.
WRITES = {"cancel", "finish", "operate", "put", "reschedule"}
GROUP_WRITES = {"cancel_group", "shift_group"}


class State(str, Enum):
    """The state of a message. Each state equals its text."""

    DELAYED = "delayed"
    READY = "ready"
    LEASED = "leased"
    DEAD = "dead"
    DELIVERED = "delivered"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    PURGED = "purged"
    #: States in a conflict: unreadable bytes, or a later format, occupy the id.
    MALFORMED = "malformed"
    NEWER = "newer"

    __str__ = str.__str__


#: By stored number, from 1 on.
STATES = (
    State.DELAYED, State.READY, State.LEASED, State.DEAD,
    State.DELIVERED, State.CANCELLED, State.EXPIRED, State.PURGED,
)
#: An existing message in one of these states is not delivered.
LOST = State.CANCELLED, State.EXPIRED, State.PURGED
FLAG_HASH = 1
FLAG_EXPIRES = 2
FLAG_BACKOFF = 4
FLAG_GROUP = 8
FLAG_HEADERS = 16
FLAG_ZSTD = 32
FLAG_DOOMED = 64
FLAG_REASON = 128
FLAG_RELATIVE = 256
FLAG_LIFETIME = 4096
FLAG_FIRST = 512
FLAG_HELD = 1024
FLAG_PAUSED = 2048
FLAG_BLOCKS = 16384
FLAG_BLOCKED = 32768
#: Every flag above; further flags come from a later version.
KNOWN_FLAGS = 57343

#: For each kind of name the class of the characters, and the maximum number of bytes.
NAMES = {
    "id": (r"[^\u0000-\u001f\u007f-\u009f\ud800-\udfff]", 128),
    "topic": (r"[A-Za-z0-9._/-]", 128),
    "group": (r"[^\u0000-\u001f\u007f-\u009f\ud800-\udfff]", 128),
    "namespace": (r"[A-Za-z0-9_-]", 32),
    "node": (r"[A-Za-z0-9_-]", 32),
    "header name": (r"[!-~]", 255),
    "token": (r"[^\u0000-\u001f\u007f-\u009f\ud800-\udfff]", 128),
}
GENERATED_ID = r"(?i)~[01][0-9a-f]{7}-[0-9a-f]{4}-7[0-9a-f]{3}(-[0-9a-f]{4}){2}[0-9a-f]{8}"


#: Keys and channels of a shard.
META = "meta"
NEVER = "never"
WAKE = "wake"
READY = "ready"
WORKERS = "workers:"


def key_of(namespace: str, shard: int, name: str) -> str:
    """Returns a key or channel of a shard."""
    return f"{{{namespace}:{shard}}}:{name}"


class UrlForm(NamedTuple):
    """One form of a URL: a host in words, and the parameters of the query."""

    schemes: tuple[str, ...]
    host: str
    port: int
    shape: str
    query: tuple[str, ...]


URLS = {
    "single": UrlForm(
        ("redis://", "rediss://"), "Redis", 6379,
        "expected redis://[user[:password]@]host[:port][/db], rediss://… for TLS, or unix:///path[?db=N]", ("db",),
    ),
    "socket": UrlForm(
        ("unix://", "redis+unix://"), "socket", 0,
        "expected unix:///path[?db=N]", ("db", "user", "pass"),
    ),
    "sentinel": UrlForm(
        ("redis+sentinel://", "rediss+sentinel://"), "sentinel", 26379,
        "expected redis+sentinel://host:port,host:port/service", ("db",),
    ),
    "cluster": UrlForm(
        ("redis+cluster://", "rediss+cluster://"), "node of a cluster", 6379,
        "expected redis+cluster://host:port,host:port", (),
    ),
}


class SettingForm(NamedTuple):
    """The form of a setting: field of `configure`, type, range, and words as regular expressions."""

    field: str
    kind: str
    least: float = 0
    most: float = 0
    words: tuple[str, ...] = ()


SETTINGS = {
    "max_attempts": SettingForm("max_attempts", "count", 0, 65_535),
    "lease": SettingForm("lease_ms", "span", 1, 86_400_000),
    "backoff": SettingForm("backoff", "backoff"),
    "expire_after": SettingForm("expire_after_ms", "span", 0, 4_503_599_627_370_496),
    "remember_cancelled": SettingForm("remember_cancelled_ms", "span", 0, 4_503_599_627_370_496),
    "remember_own": SettingForm("remember_own_ms", "span", 0, 4_503_599_627_370_496),
    "remember_generated": SettingForm("remember_generated_ms", "span", 0, 4_503_599_627_370_496),
    "repeats": SettingForm("repeats", "word", words=("deliver", "refuse")),
    "codec": SettingForm("codec", "word", words=("none", "zstd", "zstd:[0-9]{1,10}")),
    "history": SettingForm("history", "count", 0, 100_000),
    "history_for": SettingForm("history_for_ms", "span", 1000, 4_503_599_627_370_496),
    "dead_for": SettingForm("dead_for_ms", "span", 0, 4_503_599_627_370_496),
    "dead_max": SettingForm("dead_max", "count", 0, 4_294_967_295),
    "group_in_flight": SettingForm("group_in_flight", "count", 0, 65_535),
    "group_failed": SettingForm("group_failed", "word", words=("pass", "block")),
    "group_rate": SettingForm("group_rate", "word", words=("0", "[1-9][0-9]{0,6}/[smh]")),
    "group_order": SettingForm("group_order", "word", words=("ready", "fair")),
    "durability": SettingForm("durability", "word", words=("memory", "disk", "replica:[1-9]")),
    "paused": SettingForm("paused", "flag"),
    "rate": SettingForm("rate", "rate", 1e-9, 1e9),
}
