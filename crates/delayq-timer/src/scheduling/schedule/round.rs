//! The schedule's output (rounds of calls) and input (findings of a pump).

use crate::scheduling::node_id::NodeId;
use delayq::UnixMillis;
use delayq::protocol::ShardId;
use std::time::Instant;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pipeline {
    /// Many shards, few ids each.
    Light,
    /// One shard, a full batch.
    Heavy,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Round {
    /// The node of all the shards.
    pub(crate) node: NodeId,
    /// The pipeline that is in flight until the answer.
    pub(crate) pipeline: Pipeline,
    pub(crate) shards: Vec<(ShardId, Option<u64>)>,
    /// Maximum ids of each shard.
    pub(crate) limit: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NextRounds {
    /// The earliest due time of a shard that could be pumped, by Redis's clock.
    pub(crate) due: Option<UnixMillis>,
    /// No light call goes out before this moment of the local clock.
    pub(crate) not_before: Option<Instant>,
    /// Time of a pump that does not depend on a due time: the end of a rest, or a poll.
    pub(crate) anyway: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) next_due: Option<UnixMillis>,
    /// More messages are due now.
    pub(crate) more: bool,
    /// Redis's clock when the pump ran.
    pub(crate) now: UnixMillis,
    /// The pump came too early for its due time.
    pub(crate) early: bool,
    /// Whether the node holds the shard; `None` if the answer does not tell.
    pub(crate) held: Option<bool>,
}
