//! How far each shard is on its way from being given to this timer to being pumped, and back. Pure.
//!
//! ```text
//! gained ─► Wanted ─claim─► Claiming ─epoch─► Mine ─fenced─► Doubted ─ask─► Asking ─still mine─► Wanted
//!             ▲───────────────┘ failed, locked                 ▲──────────────┘ no answer
//! lost, from anywhere ─► parting ─ no call is out any more ─► confirmed
//! ```

use delayq_cluster::Lost;
use delayq_core::ShardId;
use std::collections::BTreeMap;
use std::time::Instant;

/// Shards in one pipeline of claims: some 10 µs of Redis's time each.
pub(crate) const CLAIMS_A_CALL: usize = 64;

/// The shards that were given to this timer, and those that were taken from it.
#[derive(Debug, Default)]
pub(crate) struct Owning {
    shards: BTreeMap<ShardId, Phase>,
    parting: BTreeMap<ShardId, Lost>,
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
        self.shards.insert(shard, Phase::Wanted { from: now });
    }

    /// A shard is not to be pumped here any more.
    pub(crate) fn lose(&mut self, lost: Lost) {
        self.shards.remove(&lost.shard);
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
        self.shards.values().any(|phase| *phase != Phase::Mine)
    }

    /// The shards to claim now. Each comes back by `claimed` or `retry`.
    pub(crate) fn claims(&mut self, now: Instant) -> Vec<ShardId> {
        self.take(Phase::Claiming, |phase| matches!(phase, Phase::Wanted { from } if from <= now))
    }

    /// The shards to ask etcd for now. Each comes back by `doubt`, `gain` or `lose`.
    pub(crate) fn questions(&mut self, now: Instant) -> Vec<ShardId> {
        self.take(Phase::Asking, |phase| matches!(phase, Phase::Doubted { from } if from <= now))
    }

    /// When the next claim or question is due.
    pub(crate) fn next(&self) -> Option<Instant> {
        let due = |phase: &Phase| match *phase {
            Phase::Wanted { from } | Phase::Doubted { from } => Some(from),
            _ => None,
        };
        self.shards.values().filter_map(due).min()
    }

    /// A claim was granted.
    pub(crate) fn claimed(&mut self, shard: ShardId) {
        self.set(shard, Phase::Mine);
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
        if let Some(known) = self.shards.get_mut(&shard) {
            *known = phase;
        }
    }

    fn take(&mut self, to: Phase, wanted: impl Fn(Phase) -> bool) -> Vec<ShardId> {
        let mut taken = Vec::new();
        for (&shard, phase) in &mut self.shards {
            if wanted(*phase) {
                *phase = to;
                taken.push(shard);
            }
        }
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
    fn a_fenced_shard_is_asked_for_and_claimed_anew_if_it_is_still_given() {
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
