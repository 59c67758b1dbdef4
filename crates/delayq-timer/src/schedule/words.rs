//! What a schedule is asked and what it answers.

use delayq_core::{ShardId, UnixMillis};
use std::time::Instant;

/// The lane of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Many shards, few ids each.
    Light,
    /// One shard, a full batch.
    Heavy,
}

/// One pipeline to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Round {
    /// Its lane.
    pub(crate) lane: Lane,
    /// The shards, each with its epoch.
    pub(crate) shards: Vec<(ShardId, Option<u64>)>,
    /// The most ids of each shard.
    pub(crate) limit: u16,
}

/// When to look again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Next {
    /// The earliest due time of a shard that could be pumped, by Redis's clock.
    pub(crate) due: Option<UnixMillis>,
    /// No call goes out for it before this moment of the local clock.
    pub(crate) not_before: Option<Instant>,
    /// When a shard is to be pumped whatever is due: the end of a rest, or a look.
    pub(crate) anyway: Option<Instant>,
}

/// What an answer says of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// When the shard has to be looked at next.
    pub(crate) next_due: Option<UnixMillis>,
    /// Whether more is due now.
    pub(crate) more: bool,
    /// Redis's clock when it was answered.
    pub(crate) now: UnixMillis,
    /// Whether it came too early for the due time that it was sent for.
    pub(crate) early: bool,
}
