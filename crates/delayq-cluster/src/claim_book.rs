//! What a member holds of each shard, and what to do next: pure, fed with what etcd and the consumer say.
//!
//! ```text
//!           planned           claim                won
//!  (none) ──────────► Vacant ───────► Claiming ──────────► Owned
//!                      ▲  ▲ freed        │ held              │ planned for another, and its turn
//!             key gone │  └── Blocked ◄──┘                   ▼
//!                      │          confirmed, planned ◄── Yielding    (the consumer is stopping it)
//!                      │               again: Owned          │ confirmed
//!                      └──────── Deleting ◄── delete ── Stopped
//! ```
//!
//! Only `Owned` is shown as owned, also while it is planned for another and waits for its turn to be handed over. Only
//! after `Stopped` is the key deleted, so nobody else can claim a shard that the consumer still works on.

use crate::ownership::{ClaimNumber, LossReason, Lost, OwnershipView};
use crate::trust::Trust;
use delayq::protocol::ShardId;
use std::collections::{BTreeMap, BTreeSet};

mod seen;

/// Everything known of this member's shards.
#[derive(Debug, Default)]
pub(crate) struct ClaimBook {
    slots: BTreeMap<ShardId, Slot>,
    parted: BTreeMap<ShardId, Lost>,
    claims_made: u64,
    plan_version: u64,
}

#[derive(Debug)]
struct Slot {
    planned: bool,
    /// Who the plan means it for instead.
    successor: Option<String>,
    /// A claim's answer was lost: the key may be ours without our knowing.
    unsure: bool,
    /// Another's key is only believed to be there.
    presumed: bool,
    seat: Seat,
}

/// Revisions say since when the key is ours, so that news of an earlier key is not taken for news of this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seat {
    Vacant,
    Claiming { freed_at: i64 },
    Blocked,
    Owned { claim: ClaimNumber, since: i64 },
    Yielding { claim: ClaimNumber, since: i64 },
    Stopped { since: i64 },
    Deleting { since: i64 },
}

/// A claim key as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReadClaim {
    pub(crate) mine: bool,
    pub(crate) created: i64,
}

// === impl ClaimBook ===

impl ClaimBook {
    /// A plan arrived: these shards are meant for us. `successor` names who gets one that we must give up; `held` says
    /// which of the new ones are better awaited than tried.
    pub(crate) fn plan(
        &mut self,
        version: u64,
        mine: &BTreeSet<ShardId>,
        successor: impl Fn(ShardId) -> Option<String>,
        held: impl Fn(ShardId) -> bool,
    ) {
        self.plan_version = version;
        for &shard in mine {
            let slot = self.slots.entry(shard).or_insert_with(|| {
                let presumed = held(shard);
                let seat = if presumed { Seat::Blocked } else { Seat::Vacant };
                Slot { presumed, seat, ..Slot::vacant() }
            });
            slot.planned = true;
        }
        let given_up: Vec<ShardId> = self.slots.keys().filter(|s| !mine.contains(s)).copied().collect();
        for shard in given_up {
            self.unplan(shard, successor(shard));
        }
        self.forget_empty();
    }

    /// There is no plan: what is owned is kept, and nobody knows who else is to have a shard.
    pub(crate) fn no_plan(&mut self) {
        self.plan_version = 0;
    }

    fn unplan(&mut self, shard: ShardId, to: Option<String>) {
        let Some(slot) = self.slots.get_mut(&shard) else { return };
        slot.planned = false;
        slot.successor = to;
        match slot.seat {
            // A key that may be ours must not stand in the successor's way; the deletion checks whose it is.
            Seat::Vacant | Seat::Blocked if slot.unsure => slot.seat = Seat::Stopped { since: 0 },
            Seat::Blocked => slot.seat = Seat::Vacant,
            Seat::Vacant | Seat::Claiming { .. } => {}
            Seat::Owned { .. } | Seat::Yielding { .. } | Seat::Stopped { .. } | Seat::Deleting { .. } => {}
        }
    }

    /// Tells the consumer to stop shards that are meant for others, so many that at most `limit` are on their way: each
    /// stands still only for as long as its own hand-over takes.
    pub(crate) fn start_yields(&mut self, limit: usize) {
        let under_way = |slot: &&Slot| {
            matches!(slot.seat, Seat::Yielding { .. } | Seat::Stopped { .. } | Seat::Deleting { .. })
        };
        let free = limit.saturating_sub(self.slots.values().filter(under_way).count());
        let due = self.slots.iter_mut().filter(|(_, slot)| !slot.planned);
        let due = due.filter_map(|(&shard, slot)| match slot.seat {
            Seat::Owned { claim, since } => Some((shard, slot, claim, since)),
            _ => None,
        });
        for (shard, slot, claim, since) in due.take(free) {
            slot.seat = Seat::Yielding { claim, since };
            let reason = LossReason::HandOver { to: slot.successor.clone() };
            self.parted.insert(shard, Lost { shard, reason, claim });
        }
    }

    /// Whether any shard that is meant for another waits for its turn.
    pub(crate) fn has_queue(&self) -> bool {
        self.slots.values().any(|slot| !slot.planned && matches!(slot.seat, Seat::Owned { .. }))
    }

    /// Nobody answers, and the member is on its way out: give everything up without a plan.
    pub(crate) fn yield_all(&mut self) {
        let all: Vec<ShardId> = self.slots.keys().copied().collect();
        for shard in all {
            self.unplan(shard, None);
        }
        self.start_yields(usize::MAX);
        self.forget_empty();
    }

    /// Whether any shard is awaited by belief only.
    pub(crate) fn presumes(&self) -> bool {
        self.slots.values().any(|slot| slot.presumed && slot.seat == Seat::Blocked)
    }

    /// The belief has had its time: what was awaited by it only is tried.
    pub(crate) fn doubt(&mut self) {
        for slot in self.slots.values_mut() {
            if std::mem::take(&mut slot.presumed) && slot.seat == Seat::Blocked {
                slot.seat = Seat::Vacant;
            }
        }
    }

    /// Shards to claim now, at most `limit`; they count as being claimed from here on.
    pub(crate) fn start_claims(&mut self, limit: usize) -> Vec<ShardId> {
        self.start(limit, |slot| {
            let due = slot.planned && slot.seat == Seat::Vacant;
            due.then_some(Seat::Claiming { freed_at: 0 })
        })
    }

    /// Shards whose keys to delete now, at most `limit`.
    pub(crate) fn start_deletes(&mut self, limit: usize) -> Vec<ShardId> {
        self.start(limit, |slot| match slot.seat {
            Seat::Stopped { since } => Some(Seat::Deleting { since }),
            _ => None,
        })
    }

    fn start(&mut self, limit: usize, due: impl Fn(&Slot) -> Option<Seat>) -> Vec<ShardId> {
        let mut started = Vec::new();
        for (&shard, slot) in &mut self.slots {
            if started.len() == limit {
                break;
            }
            if let Some(seat) = due(slot) {
                slot.seat = seat;
                started.push(shard);
            }
        }
        started
    }

    /// The claim is ours since this revision.
    pub(crate) fn claim_won(&mut self, shard: ShardId, since: i64) {
        let Some(slot) = self.slots.get_mut(&shard) else { return };
        let Seat::Claiming { freed_at } = slot.seat else { return };
        slot.unsure = false;
        if freed_at > since {
            slot.seat = Seat::Vacant;
        } else if slot.planned {
            self.own(shard, since);
        } else {
            slot.seat = Seat::Stopped { since };
        }
        self.forget_empty();
    }

    /// Another's key was there at this revision.
    pub(crate) fn claim_held(&mut self, shard: ShardId, at: i64) {
        let Some(slot) = self.slots.get_mut(&shard) else { return };
        let Seat::Claiming { freed_at } = slot.seat else { return };
        (slot.unsure, slot.presumed) = (false, false);
        slot.seat = if freed_at > at || !slot.planned { Seat::Vacant } else { Seat::Blocked };
        self.forget_empty();
    }

    /// The claim's request was refused whole, because the plan had changed.
    pub(crate) fn claim_not_made(&mut self, shard: ShardId) {
        let Some(slot) = self.slots.get_mut(&shard) else { return };
        if matches!(slot.seat, Seat::Claiming { .. }) {
            slot.seat = Seat::Vacant;
        }
        self.forget_empty();
    }

    /// A key of ours was deleted at our wish (or was not ours any more).
    pub(crate) fn deleted(&mut self, shard: ShardId) {
        let Some(slot) = self.slots.get_mut(&shard) else { return };
        if matches!(slot.seat, Seat::Deleting { .. }) {
            slot.seat = Seat::Vacant;
            slot.unsure = false;
            self.parted.remove(&shard);
        }
        self.forget_empty();
    }

    /// The consumer stopped this shard.
    pub(crate) fn confirmed(&mut self, lost: &Lost) {
        let Some(slot) = self.slots.get_mut(&lost.shard) else { return };
        match slot.seat {
            Seat::Yielding { claim, since } if claim == lost.claim => {
                // The plan may have changed its mind meanwhile: the key is still ours.
                if slot.planned {
                    self.own(lost.shard, since);
                } else {
                    slot.seat = Seat::Stopped { since };
                }
            }
            _ => {}
        }
    }

    /// Everything is lost at once.
    pub(crate) fn drop_all(&mut self, reason: &LossReason) {
        for (shard, slot) in std::mem::take(&mut self.slots) {
            if let Seat::Owned { claim, .. } = slot.seat {
                self.parted.insert(shard, Lost { shard, reason: reason.clone(), claim });
            }
        }
    }

    /// How many shards are owned.
    pub(crate) fn owned(&self) -> usize {
        self.slots.values().filter(|slot| matches!(slot.seat, Seat::Owned { .. })).count()
    }

    /// What the consumer sees.
    pub(crate) fn view(&self, trust: Trust) -> OwnershipView {
        let planned = self.slots.values().filter(|slot| slot.planned).count();
        let plan_version = self.plan_version;
        let mut view = OwnershipView { plan_version, planned, trust, ..OwnershipView::default() };
        for (&shard, slot) in &self.slots {
            match slot.seat {
                Seat::Owned { claim, .. } => drop(view.owned.insert(shard, claim)),
                Seat::Blocked => drop(view.coming.insert(shard)),
                Seat::Vacant => {}
                Seat::Claiming { .. }
                | Seat::Yielding { .. }
                | Seat::Stopped { .. }
                | Seat::Deleting { .. } => {
                    view.unsettled += 1;
                }
            }
        }
        view.parted.clone_from(&self.parted);
        view
    }

    fn own(&mut self, shard: ShardId, since: i64) {
        let Some(slot) = self.slots.get_mut(&shard) else { return };
        self.claims_made += 1;
        slot.seat = Seat::Owned { claim: ClaimNumber(self.claims_made), since };
        self.parted.remove(&shard);
    }

    fn lose(&mut self, shard: ShardId, claim: ClaimNumber) {
        let Some(slot) = self.slots.get_mut(&shard) else { return };
        slot.seat = Seat::Vacant;
        self.parted.insert(shard, Lost { shard, reason: LossReason::ClaimGone, claim });
    }

    fn forget_empty(&mut self) {
        self.slots.retain(|_, slot| slot.planned || slot.seat != Seat::Vacant);
    }
}

// === impl Slot ===

impl Slot {
    fn vacant() -> Self {
        Self { planned: false, successor: None, unsure: false, presumed: false, seat: Seat::Vacant }
    }
}

#[cfg(test)]
mod tests;
