//! How far each shard is on its way from being given to this timer to being pumped, and back. Pure.
//!
//! ```text
//! gained ─► Wanted ─claim─► Claiming ─epoch─► Mine ─fenced─► Doubted ─ask─► Asking ─still mine─► Wanted
//!             ▲───────────────┘ failed, locked                 ▲──────────────┘ no answer
//! lost, from anywhere ─► parting ─ no call is out any more ─► confirmed
//! ```

use delayq::protocol::ShardId;
use delayq_cluster::Lost;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// The shards that were given to this timer, and those that were taken from it.
#[derive(Debug, Default)]
pub(crate) struct Owning {
    shards: BTreeMap<ShardId, Phase>,
    /// Those of `shards` that are to be claimed, and those to be asked for, by when.
    wanted: BTreeSet<(Instant, ShardId)>,
    doubted: BTreeSet<(Instant, ShardId)>,
    /// How many of `shards` are pumped.
    mine: usize,
    parting: BTreeMap<ShardId, Lost>,
    /// Whose lock keeps this timer from a shard.
    locked_out: BTreeMap<ShardId, String>,
    /// How many calls are out for a shard.
    out: BTreeMap<ShardId, u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Wanted { from: Instant },
    Claiming,
    Mine,
    Doubted { from: Instant },
    Asking,
}

// === impl Owning ===

impl Owning {
    /// A shard is to be pumped here, after a claim.
    pub(crate) fn gain(&mut self, shard: ShardId, now: Instant) {
        self.put(shard, Some(Phase::Wanted { from: now }));
    }

    /// A shard is not to be pumped here any more.
    pub(crate) fn lose(&mut self, lost: Lost) {
        self.put(lost.shard, None);
        self.locked_out.remove(&lost.shard);
        self.parting.insert(lost.shard, lost);
    }

    /// Whether a shard is given to this timer.
    pub(crate) fn is_given(&self, shard: ShardId) -> bool {
        self.shards.contains_key(&shard)
    }

    /// Whether any shard is given to this timer.
    pub(crate) fn is_given_any(&self) -> bool {
        !self.shards.is_empty()
    }

    /// Whether any shard was given to this timer and is not pumped yet.
    pub(crate) fn is_behind(&self) -> bool {
        self.mine < self.shards.len()
    }

    /// The shards to claim now. Each comes back by `claimed` or `retry`.
    pub(crate) fn claims(&mut self, now: Instant) -> Vec<ShardId> {
        self.take(|owning| &owning.wanted, Phase::Claiming, now)
    }

    /// The shards to ask etcd for now. Each comes back by `doubt`, `gain` or `lose`.
    pub(crate) fn questions(&mut self, now: Instant) -> Vec<ShardId> {
        self.take(|owning| &owning.doubted, Phase::Asking, now)
    }

    /// When the next claim or question is due.
    pub(crate) fn next(&self) -> Option<Instant> {
        [&self.wanted, &self.doubted]
            .into_iter()
            .filter_map(|queue| queue.first())
            .map(|&(from, _)| from)
            .min()
    }

    /// A claim was granted.
    pub(crate) fn claimed(&mut self, shard: ShardId) {
        self.locked_out.remove(&shard);
        self.set(shard, Phase::Mine);
    }

    /// Another timer's lock refuses the claim: try again, not before `from`.
    pub(crate) fn locked_out(&mut self, shard: ShardId, owner: String, from: Instant) {
        self.locked_out.insert(shard, owner);
        self.retry(shard, from);
    }

    /// Redis does not have the shard: try again, not before `from`.
    pub(crate) fn missing(&mut self, shard: ShardId, from: Instant) {
        self.locked_out.remove(&shard);
        self.retry(shard, from);
    }

    /// Whose lock keeps this timer from any shard.
    pub(crate) fn locked_out_by(&self) -> Option<&str> {
        self.locked_out.values().next().map(String::as_str)
    }

    /// A shard has to be claimed again, not before `from`.
    pub(crate) fn retry(&mut self, shard: ShardId, from: Instant) {
        self.set(shard, Phase::Wanted { from });
    }

    /// A pump was fenced, or nobody answered the question whose shard it is: ask, not before `from`.
    pub(crate) fn doubt(&mut self, shard: ShardId, from: Instant) {
        self.set(shard, Phase::Doubted { from });
    }

    /// A call goes out for a shard.
    pub(crate) fn sent(&mut self, shard: ShardId) {
        *self.out.entry(shard).or_default() += 1;
    }

    /// It came back.
    pub(crate) fn returned(&mut self, shard: ShardId) {
        if let Some(calls) = self.out.get_mut(&shard) {
            *calls -= 1;
            if *calls == 0 {
                self.out.remove(&shard);
            }
        }
    }

    /// Shards that were lost and for which no call is out any more: to be confirmed.
    pub(crate) fn parted(&mut self) -> Vec<Lost> {
        let quiet: Vec<ShardId> =
            self.parting.keys().copied().filter(|shard| !self.out.contains_key(shard)).collect();
        quiet.iter().filter_map(|shard| self.parting.remove(shard)).collect()
    }

    fn set(&mut self, shard: ShardId, phase: Phase) {
        if self.is_given(shard) {
            self.put(shard, Some(phase));
        }
    }

    fn put(&mut self, shard: ShardId, phase: Option<Phase>) {
        let before = match phase {
            Some(phase) => self.shards.insert(shard, phase),
            None => self.shards.remove(&shard),
        };
        match before {
            Some(Phase::Wanted { from }) => _ = self.wanted.remove(&(from, shard)),
            Some(Phase::Doubted { from }) => _ = self.doubted.remove(&(from, shard)),
            Some(Phase::Mine) => self.mine -= 1,
            _ => {}
        }
        match phase {
            Some(Phase::Wanted { from }) => _ = self.wanted.insert((from, shard)),
            Some(Phase::Doubted { from }) => _ = self.doubted.insert((from, shard)),
            Some(Phase::Mine) => self.mine += 1,
            _ => {}
        }
    }

    fn take(
        &mut self,
        queue: impl Fn(&Self) -> &BTreeSet<(Instant, ShardId)>,
        to: Phase,
        now: Instant,
    ) -> Vec<ShardId> {
        let due = queue(self).iter().take_while(|(from, _)| *from <= now);
        let taken: Vec<ShardId> = due.map(|&(_, shard)| shard).collect();
        taken.iter().for_each(|&shard| self.put(shard, Some(to)));
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const A: ShardId = ShardId::new(1);
    const B: ShardId = ShardId::new(2);

    #[test]
    fn a_shard_is_claimed_once_at_a_time() {
        let now = Instant::now();
        let later = now + Duration::from_secs(1);
        let mut owning = Owning::default();
        owning.gain(A, now);
        owning.gain(B, later);
        assert_eq!(owning.claims(now), [A]);
        assert_eq!(owning.claims(now), []);
        assert_eq!(owning.next(), Some(later));
        owning.claimed(A);
        assert!(owning.is_behind());
        assert_eq!(owning.claims(later), [B]);
        owning.claimed(B);
        assert!(!owning.is_behind());
        assert_eq!(owning.next(), None);
    }

    #[test]
    fn a_fenced_shard_is_asked_for_and_claimed_again_if_it_is_still_given() {
        let now = Instant::now();
        let mut owning = Owning::default();
        owning.gain(A, now);
        owning.claims(now);
        owning.claimed(A);
        owning.doubt(A, now);
        assert_eq!(owning.claims(now), []);
        assert_eq!(owning.questions(now), [A]);
        owning.gain(A, now);
        assert_eq!(owning.claims(now), [A]);
        owning.doubt(B, now);
        assert_eq!(owning.questions(now), [], "what is not given is not asked for");
    }
}
