//! What etcd shows of the claims, against what the book believes of them.

use super::{ClaimBook, ReadClaim, Seat, Slot};
use delayq::protocol::ShardId;
use std::collections::BTreeMap;

// === impl ClaimBook ===

impl ClaimBook {
    /// Requests that were out have no answer: what they did is unknown.
    pub(crate) fn requests_lost(&mut self) {
        for slot in self.slots.values_mut() {
            match slot.seat {
                Seat::Claiming { .. } => {
                    slot.unsure = true;
                    slot.seat = if slot.planned { Seat::Vacant } else { Seat::Stopped { since: 0 } };
                }
                Seat::Deleting { since } => slot.seat = Seat::Stopped { since },
                Seat::Vacant | Seat::Blocked => {}
                Seat::Owned { .. } | Seat::Yielding { .. } | Seat::Stopped { .. } => {}
            }
        }
    }

    /// A claim key was deleted, by whomever, at this revision.
    pub(crate) fn key_deleted(&mut self, shard: ShardId, at: i64) {
        let Some(slot) = self.slots.get_mut(&shard) else { return };
        match slot.seat {
            Seat::Claiming { freed_at } => slot.seat = Seat::Claiming { freed_at: freed_at.max(at) },
            Seat::Blocked => slot.seat = Seat::Vacant,
            Seat::Owned { claim, since } if at > since => self.lose(shard, claim),
            Seat::Yielding { since, .. } | Seat::Stopped { since } if at > since => slot.seat = Seat::Vacant,
            Seat::Vacant | Seat::Deleting { .. } => {}
            Seat::Owned { .. } | Seat::Yielding { .. } | Seat::Stopped { .. } => {}
        }
        self.forget_empty();
    }

    /// All claim keys as they stand. Call [`ClaimBook::requests_lost`] and [`ClaimBook::plan`] before.
    pub(crate) fn relisted(&mut self, keys: &BTreeMap<ShardId, ReadClaim>) {
        for (&shard, key) in keys.iter().filter(|(_, key)| key.mine) {
            self.slots.entry(shard).or_insert_with(Slot::vacant);
            self.found_mine(shard, key.created);
        }
        let others: Vec<ShardId> = self.slots.keys().copied().collect();
        for shard in others.into_iter().filter(|shard| keys.get(shard).is_none_or(|key| !key.mine)) {
            self.found_not_mine(shard, keys.contains_key(&shard));
        }
        self.forget_empty();
    }

    fn found_mine(&mut self, shard: ShardId, created: i64) {
        let Some(slot) = self.slots.get_mut(&shard) else { return };
        match &mut slot.seat {
            Seat::Owned { since, .. } | Seat::Yielding { since, .. } | Seat::Stopped { since } => {
                *since = created;
            }
            Seat::Vacant | Seat::Blocked if slot.planned => self.own(shard, created),
            seat @ (Seat::Vacant | Seat::Blocked) => *seat = Seat::Stopped { since: created },
            Seat::Claiming { .. } | Seat::Deleting { .. } => {}
        }
    }

    fn found_not_mine(&mut self, shard: ShardId, anothers: bool) {
        let Some(slot) = self.slots.get_mut(&shard) else { return };
        if let Seat::Owned { claim, .. } = slot.seat {
            self.lose(shard, claim);
        }
        let Some(slot) = self.slots.get_mut(&shard) else { return };
        slot.presumed = false;
        slot.seat = if anothers && slot.planned { Seat::Blocked } else { Seat::Vacant };
    }
}
