//! The schedule's output (rounds of calls) and input (findings of a pump).

use crate::scheduling::aim::{Aim, Shot};
use crate::scheduling::node_id::NodeId;
use delayq_core::shard::ShardId;
use delayq_core::time::UnixMillis;
use delayq_core::verbs::pump::{PumpReport, PumpWord};
use std::time::Instant;

/// The two kinds of pipelines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pipeline {
    /// Many shards, few ids each.
    Light,
    /// One shard, a full batch.
    Heavy,
}

/// One pipeline of pumps to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Round {
    /// The node of all the shards.
    pub node: NodeId,
    /// The pipeline that is in flight until the answer.
    pub pipeline: Pipeline,
    /// The shards, each with the epoch under which it is owned.
    pub shards: Vec<(ShardId, Option<u64>)>,
    /// Maximum ids of each shard.
    pub limit: u16,
}

/// When to ask for rounds to a node again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextRounds {
    /// The earliest due time of a shard that could be pumped, by Redis's clock.
    pub due: Option<UnixMillis>,
    /// No light call goes out before this moment of the local clock.
    pub not_before: Option<Instant>,
    /// Time of a pump that does not depend on a due time: the end of a rest, or a poll.
    pub anyway: Option<Instant>,
}

/// The findings of a pump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The next due time of the shard.
    pub next_due: Option<UnixMillis>,
    /// More messages are due now.
    pub more: bool,
    /// Redis's clock when the pump ran.
    pub now: UnixMillis,
    /// The pump came too early for its due time.
    pub early: bool,
    /// Whether the node holds the shard; `None` if the answer does not tell.
    pub held: Option<bool>,
}

// === impl NextRounds ===

impl NextRounds {
    /// The moments to ask for rounds, by the estimates for the node.
    pub fn shots(self, aim: &Aim, now: Instant) -> impl Iterator<Item = Shot> {
        let due = self.due.map(|due| aim.shot(due, now));
        let due = due.map(|shot| self.not_before.filter(|&from| from > shot.wake).map_or(shot, Shot::at));
        [due, self.anyway.map(Shot::at)].into_iter().flatten()
    }
}

// === impl Found ===

impl Found {
    /// Reads a pump's report.
    pub fn of(report: &PumpReport, early: bool) -> Self {
        let held = match report.word {
            PumpWord::Pumped | PumpWord::More => Some(false),
            PumpWord::Held => Some(true),
            PumpWord::NotOverdue | PumpWord::Ahead | PumpWord::Fenced(_) => None,
        };
        let more = report.word == PumpWord::More;
        Self { next_due: report.next_due, more, now: report.now.millis(), early, held }
    }
}
