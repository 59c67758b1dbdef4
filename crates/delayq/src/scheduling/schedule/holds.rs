//! Holds: while the clock of a node cannot be trusted, the node refuses every pump of its shards.
//!
//! An unknown hold is learned from the shard's answers: a held shard refuses the pump with that reason. So a hold that
//! may or may not have arrived is ended all the same.

use super::Schedule;
use crate::scheduling::node_id::NodeId;
use delayq_core::shard::ShardId;

/// A hold of a shard to set, or to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// The shard.
    pub shard: ShardId,
    /// The epoch under which the shard is owned.
    pub epoch: u64,
    /// True to set the hold.
    pub on: bool,
}

// === impl Schedule ===

impl<K> Schedule<K> {
    /// Stops the shards of a node while the clock of the node is not trusted.
    pub fn jump(&mut self, node: NodeId, jumped: bool) {
        self.ways.entry(node).or_default().jumped = jumped;
        let here: Vec<ShardId> = self.owned_at(node).collect();
        here.into_iter()
            .for_each(|shard| self.edit(shard, |shard| shard.stop(|shard| shard.jumped = jumped)));
    }

    /// Takes the holds to set or to end now in the shards of a node; holds end only once the clock is `proven`. Answer
    /// each by [`Self::settled`].
    pub fn holds(&mut self, node: NodeId, proven: bool) -> Vec<Hold> {
        let on = self.is_jumped(node);
        if !on && !proven {
            return Vec::new();
        }
        let here = self.shards.iter_mut().filter(|(_, shard)| shard.node == node);
        let wrong = here.filter(|(_, shard)| shard.held != on && shard.hold_sent.is_none());
        wrong
            .map(|(&id, shard)| {
                shard.hold_sent = Some(on);
                Hold { shard: id, epoch: shard.epoch, on }
            })
            .collect()
    }

    /// Handles the answer to a hold or to its end. Without success the call is sent again.
    pub fn settled(&mut self, shard: ShardId, done: bool) {
        self.edit(shard, |shard| {
            if let (Some(on), true) = (shard.hold_sent.take(), done) {
                shard.stop(|shard| shard.held = on);
            }
        });
    }

    /// Returns true if any shard is known to be held by its node.
    pub fn hold_any(&self) -> bool {
        self.ways.values().any(|way| way.queues.hold_any())
    }

    /// Returns true if the clock of a node is not trusted.
    pub(super) fn is_jumped(&self, node: NodeId) -> bool {
        self.ways.get(&node).is_some_and(|way| way.jumped)
    }
}
