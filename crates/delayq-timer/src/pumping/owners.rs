//! Who owns what: shards that come and go, wake-ups of theirs, and a deployment that grows.

use super::Pumping;
use crate::events::{Parted, TrustChanged};
use delayq_cluster::{Lost, OwnershipChange};
use delayq_core::{Heard, ShardCount, ShardId, UnixMillis};
use std::collections::BTreeSet;
use std::time::Instant;

/// Heard wakes that are taken in one go.
const WAKES_A_STEP: usize = 1024;

// === impl Pumping ===

impl Pumping {
    pub(super) fn hear(&mut self, heard: Heard) {
        let mut next = Some(heard);
        for _ in 0..WAKES_A_STEP {
            match next.take().or_else(|| self.listener.try_next()) {
                Some(Heard::Wake(shard, due)) => {
                    self.schedule.hear(shard, due);
                    self.foreign.hear(shard, due);
                }
                Some(Heard::Resync) => {
                    self.parts.metrics.resyncs.inc();
                    self.schedule.look_at_all();
                    if let Some(redis) = self.redis_ms(Instant::now()) {
                        self.foreign.missed_some(redis);
                    }
                }
                Some(Heard::Ready(..)) => {}
                None => return,
            }
        }
    }

    pub(super) fn change(&mut self, change: Option<OwnershipChange>) {
        let Some(change) = change else {
            self.parted = true;
            return;
        };
        let now = Instant::now();
        if self.trust.as_ref().is_none_or(|before| before.name() != change.trust.name()) {
            TrustChanged { trust: change.trust, strict: self.parts.config.strict }.emit(&self.parts.metrics);
            self.trust = Some(change.trust);
        }
        for lost in change.lost {
            self.lose(lost);
        }
        for &shard in &change.gained {
            self.owning.gain(shard, now);
        }
        self.listen(change.gained, now);
        self.count_shards();
    }

    /// Listens to the shards that are given to this timer, and to others' where few share them. What was gained is
    /// listened to anew: that is followed by a look, whatever was said before.
    pub(super) fn listen(&mut self, gained: Vec<ShardId>, now: Instant) {
        let all: Vec<ShardId> = self.parts.client.shards().shards().collect();
        let (given, others): (Vec<_>, Vec<_>) = all.iter().partition(|&&shard| self.owning.is_given(shard));
        if self.parts.lock.is_zero() {
            let redis = self.redis_ms(now).unwrap_or(UnixMillis::new(0));
            let timers = self.other_timers(given.len(), all.len());
            self.foreign.set(others.into_iter(), timers, redis);
        }
        let wanted: BTreeSet<ShardId> = given.into_iter().chain(self.foreign.to_hear()).collect();
        let add: BTreeSet<ShardId> = wanted.difference(&self.listening).copied().chain(gained).collect();
        let remove: Vec<ShardId> = self.listening.difference(&wanted).copied().collect();
        if !remove.is_empty() {
            self.listener.remove(remove);
        }
        if !add.is_empty() {
            self.listener.add(add.into_iter().collect());
        }
        self.listening = wanted;
    }

    /// How many other timers there are, as the plan has it; without one, as many as its share of the shards tells.
    pub(super) fn other_timers(&self, given: usize, shards: usize) -> usize {
        match (self.parts.handle.view().members, given) {
            (0, 0) => 1,
            (0, given) => shards.div_ceil(given) - 1,
            (members, 0) => members,
            (members, _) => members - 1,
        }
    }

    /// The deployment has more shards now: the plan gives the new ones out.
    pub(super) fn grow(&mut self, shards: ShardCount) {
        self.parts.handle.set_shards(shards);
        self.listen(Vec::new(), Instant::now());
    }

    pub(super) fn lose(&mut self, lost: Lost) {
        let shard = lost.shard;
        Parted { shard, reason: &lost.reason }.emit(&self.parts.metrics);
        self.schedule.drop(shard);
        self.holding.forget(shard);
        self.locked_out.remove(&shard);
        self.moved.remove(&shard);
        self.owning.lose(lost);
    }

    pub(super) fn confirm(&mut self) {
        let parted = self.owning.parted();
        self.parts.ownership.confirm(&parted);
    }
}
