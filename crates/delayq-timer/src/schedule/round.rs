//! What a schedule sends, and what it learns of it.

use crate::node_id::NodeId;
use delayq::UnixMillis;
use delayq::protocol::ShardId;
use std::time::Instant;

/// The pipeline of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pipeline {
    /// Many shards, few ids each.
    Light,
    /// One shard, a full batch.
    Heavy,
}

/// Calls to send together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Round {
    /// Where to.
    pub(crate) node: NodeId,
    /// The pipeline.
    pub(crate) pipeline: Pipeline,
    /// The shards, each with its epoch.
    pub(crate) shards: Vec<(ShardId, Option<u64>)>,
    /// The most ids of each shard.
    pub(crate) limit: u16,
}

/// When to ask for rounds again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Next {
    /// The earliest due time of a shard that could be pumped, by Redis's clock.
    pub(crate) due: Option<UnixMillis>,
    /// No call goes out for it before this moment of the local clock.
    pub(crate) not_before: Option<Instant>,
    /// When a shard is to be pumped whatever is due: the end of a rest, or a poll.
    pub(crate) anyway: Option<Instant>,
}

/// What a pump found in a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// When something is due next.
    pub(crate) next_due: Option<UnixMillis>,
    /// Whether more is due now.
    pub(crate) more: bool,
    /// Redis's clock when it ran.
    pub(crate) now: UnixMillis,
    /// Whether it came too early for the due time that it was sent for.
    pub(crate) early: bool,
}
