"""The settings of a topic, as fields of a policy.

Written from the tables of delayq-core, never by hand: DELAYQ_UPDATE=1 cargo test -p delayq-core --test answers -- description.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from .message import Backoff

Setting = Literal[
    "max_attempts", "lease", "backoff", "expire_after", "remember_cancelled", "remember_own",
    "remember_generated", "repeats", "codec", "history", "history_for", "dead_for",
    "dead_max", "group_in_flight", "group_failed", "group_rate", "group_order", "durability",
    "paused", "rate",
]


@dataclass(frozen=True)
class Settings:
    """Settings of a topic. None means the default; in a change, no change."""

    #: Maximum attempts; 0 for no limit (at most 65535). Default 16.
    max_attempts: int | None = None
    #: How long a lease lasts (1ms to 1day). Default 30s.
    lease: timedelta | None = None
    #: Delay before another attempt (1ms to 49days each). Default 1s..10m.
    backoff: Backoff | None = None
    #: Time from due to expiry; 0 for never. Default 0s.
    expire_after: timedelta | None = None
    #: How long a cancelled id is kept for deduplication. Default 1h.
    remember_cancelled: timedelta | None = None
    #: How long a finished id of the producer's own is kept for deduplication. Default 1m.
    remember_own: timedelta | None = None
    #: How long a finished generated id is kept for deduplication. Default 0s.
    remember_generated: timedelta | None = None
    #: Handling of a repeated put whose first try may have finished and been forgotten: deliver (perhaps twice) or refuse
    #: (perhaps never). Default deliver.
    repeats: Literal["deliver", "refuse"] | None = None
    #: Compression of payloads, by clients that compress: none, zstd, or zstd:ID of a dictionary. Default none.
    codec: str | None = None
    #: Approximate number of events that each shard keeps for delayq log; 0 for none (at most 100000). Default 0.
    history: int | None = None
    #: How long events are kept (at least 1s). Default 7days.
    history_for: timedelta | None = None
    #: How long a dead letter is kept before a sweep deletes it; 0 until it is purged or replayed. Default 0s.
    dead_for: timedelta | None = None
    #: Maximum dead letters of each shard, of which sweeps delete the oldest; 0 for no limit. Default 0.
    dead_max: int | None = None
    #: Maximum messages of a group that are leased at the same time: 1 delivers a group in order, one after the other; 0 for no
    #: limit (at most 65535). Default 0.
    group_in_flight: int | None = None
    #: Handling of a group's other messages while one of them has failed: pass (they are delivered meanwhile) or block (they
    #: wait until it has finished). Default pass.
    group_failed: Literal["pass", "block"] | None = None
    #: Maximum messages of a group that are handed out in a second, minute or hour, evenly: 5/s, 90/m, 1000/h; 0 for no limit.
    #: Default 0.
    group_rate: str | None = None
    #: Order in which ready messages are handed out: ready (as they became ready) or fair (the groups take turns, so that many
    #: messages of one group do not delay those of another). Default ready.
    group_order: Literal["ready", "fair"] | None = None
    #: Confirmation that puts, cancels and reschedules wait for: memory (none), disk (the master's append-only file, synced;
    #: needs Redis 7.2), or replica:N (N replicas, 1 to 9, have the write). Default memory.
    durability: str | None = None
    #: Stops deliveries. Default false.
    paused: bool | None = None
    #: Maximum deliveries per second over all shards (1e-9 to 1e9 in each shard). Default unlimited.
    rate: float | None = None
