//! The queues of waiting shards, each in serving order, so that no step scans all shards.

use super::shard::Shard;
use delayq_core::shard::ShardId;
use delayq_core::time::UnixMillis;
use std::collections::BTreeSet;
use std::time::Instant;

/// Shards that may be pumped and have no call in flight, by reason of waiting.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Queues {
    /// By due time; among equal due times, the longest unserved first.
    due: BTreeSet<((UnixMillis, u64), ShardId)>,
    /// The longest unserved first.
    polls: BTreeSet<(u64, ShardId)>,
    heavy: BTreeSet<(u64, ShardId)>,
    resting: BTreeSet<(Instant, ShardId)>,
    /// Shards that their node holds, whatever else they wait for.
    held: BTreeSet<((), ShardId)>,
}

/// A shard's places in the queues: apart from `held`, none while a call is in flight, or while the shard may not be
/// pumped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct QueuePlaces {
    due: Option<(UnixMillis, u64)>,
    poll: Option<u64>,
    heavy: Option<u64>,
    rest: Option<Instant>,
    held: bool,
}

// === impl QueuePlaces ===

impl QueuePlaces {
    pub(super) fn of<K>(shard: &Shard<K>) -> Self {
        let nowhere = Self { held: shard.held, ..Self::default() };
        if shard.out.is_some() || shard.is_stopped() {
            return nowhere;
        }
        match shard.resting {
            Some(until) => Self { rest: Some(until), ..nowhere },
            None if shard.more => Self { heavy: Some(shard.turn), ..nowhere },
            None => {
                let due = shard.next_due.map(|due| (due, shard.turn));
                Self { due, poll: shard.poll.then_some(shard.turn), ..nowhere }
            }
        }
    }
}

// === impl Queues ===

impl Queues {
    /// Moves a shard from its former places to new places.
    pub(super) fn replace(&mut self, id: ShardId, before: &QueuePlaces, now: &QueuePlaces) {
        requeue(&mut self.due, id, before.due, now.due);
        requeue(&mut self.polls, id, before.poll, now.poll);
        requeue(&mut self.heavy, id, before.heavy, now.heavy);
        requeue(&mut self.resting, id, before.rest, now.rest);
        requeue(&mut self.held, id, before.held.then_some(()), now.held.then_some(()));
    }

    /// The shards with a due time, earliest first.
    pub(super) fn due(&self) -> impl Iterator<Item = (UnixMillis, ShardId)> {
        self.due.iter().map(|&((due, _), id)| (due, id))
    }

    pub(super) fn first_due(&self) -> Option<UnixMillis> {
        self.due.first().map(|&((due, _), _)| due)
    }

    /// The shards to poll, longest unserved first.
    pub(super) fn polls(&self) -> impl Iterator<Item = ShardId> {
        self.polls.iter().map(|&(_, id)| id)
    }

    pub(super) fn has_polls(&self) -> bool {
        !self.polls.is_empty()
    }

    /// The heavy shard whose turn is next.
    pub(super) fn heavy(&self) -> Option<ShardId> {
        self.heavy.first().map(|&(_, id)| id)
    }

    /// A shard whose rest has ended.
    pub(super) fn rested(&self, now: Instant) -> Option<ShardId> {
        self.resting.first().filter(|(until, _)| *until <= now).map(|&(_, id)| id)
    }

    pub(super) fn hold_any(&self) -> bool {
        !self.held.is_empty()
    }

    pub(super) fn first_rest(&self) -> Option<Instant> {
        self.resting.first().map(|&(until, _)| until)
    }
}

fn requeue<K: Ord + Copy>(
    queue: &mut BTreeSet<(K, ShardId)>,
    id: ShardId,
    before: Option<K>,
    now: Option<K>,
) {
    if before == now {
        return;
    }
    if let Some(key) = before {
        queue.remove(&(key, id));
    }
    if let Some(key) = now {
        queue.insert((key, id));
    }
}
