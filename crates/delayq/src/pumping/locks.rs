//! Decides when a worker claims each shard: to renew its lock, or to take a shard over. Pure.
//!
//! ```text
//!              claimed                              a claim that another owner's lock refuses, or a fence
//! Watched ────────────────► Owned: renewed while pumps are answered ─────────────────────────────► Watched
//!    ▲ │ claimed again when the owner's lock ends, when the owner gives the shard back,
//!    └─┘ or every 5 s while a timer owns the shard
//! ```
//!
//! A worker whose pumps are not answered lets its lock end, and claims again only a lock later, so that another worker
//! comes first: no lock is extended for ever by a worker that cannot pump.

use delayq_core::shard::ShardId;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// How long a lock lasts, and so the maximum time until another worker takes over from a worker that died, apart from
/// [`SPREAD`].
pub const LOCK: Duration = Duration::from_secs(10);
/// Time from one claim of an owned shard to the next.
const RENEW: Duration = Duration::from_secs(4);
/// Time until a shard is claimed again that a timer owns, which has no lock.
const TIMERS: Duration = Duration::from_secs(5);
/// Time until a failed claim is sent again.
const RETRY: Duration = Duration::from_secs(1);
/// Maximum random delay behind the end of another worker's lock, so that workers do not claim in step.
const SPREAD: Duration = Duration::from_millis(500);

/// The claims of each shard, by a program that owns shards by locks and yields to timers.
#[derive(Clone, Debug, Default)]
pub struct Locks {
    shards: BTreeMap<ShardId, Claiming>,
    /// The shards without a claim in flight, in the order of their next claims.
    due: BTreeSet<(Instant, ShardId)>,
}

#[derive(Clone, Copy, Debug)]
struct Claiming {
    state: Ownership,
    /// When to claim next; `None` while a claim is in flight.
    next: Option<Instant>,
    /// The shard was given back while a claim was in flight, whose answer may be older.
    freed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ownership {
    Watched,
    Owned {
        /// When the last claim was sent.
        claimed: Instant,
        /// The last answer to a pump.
        pumped: Instant,
    },
}

// === impl Locks ===

impl Locks {
    /// Claims shards that are not known yet.
    pub fn add(&mut self, shards: impl Iterator<Item = ShardId>, now: Instant) {
        for shard in shards.filter(|shard| !self.shards.contains_key(shard)).collect::<Vec<_>>() {
            self.shards.insert(shard, Claiming { state: Ownership::Watched, next: Some(now), freed: false });
            self.due.insert((now, shard));
        }
    }

    /// Takes the shards to claim now. Answer each by [`Self::claimed`], [`Self::refused`] or [`Self::failed`].
    pub fn take(&mut self, now: Instant) -> Vec<ShardId> {
        let due = self.due.iter().take_while(|(next, _)| *next <= now);
        let due: Vec<ShardId> = due.map(|&(_, shard)| shard).collect();
        for &shard in &due {
            self.edit(shard, |claiming| (claiming.next, claiming.freed) = (None, false));
        }
        due
    }

    /// The time of the next claim.
    pub fn next(&self) -> Option<Instant> {
        self.due.first().map(|&(next, _)| next)
    }

    /// Handles a granted claim that was sent at `sent`.
    pub fn claimed(&mut self, shard: ShardId, sent: Instant) {
        self.edit(shard, |claiming| {
            let pumped = match claiming.state {
                Ownership::Watched => sent,
                Ownership::Owned { pumped, .. } => pumped,
            };
            let owned = Ownership::Owned { claimed: sent, pumped };
            (claiming.state, claiming.next) = (owned, Some(renewal(pumped, sent)));
        });
    }

    /// Handles a claim that another owner's ownership refused; `lock` is the time until the owner's lock ends.
    pub fn refused(&mut self, shard: ShardId, lock: Option<Duration>, now: Instant) {
        self.edit(shard, |claiming| {
            let rest = lock.map_or(TIMERS, |lock| lock + SPREAD.mul_f64(fastrand::f64()));
            let rest = if claiming.freed { Duration::ZERO } else { rest };
            (claiming.state, claiming.next) = (Ownership::Watched, Some(now + rest));
        });
    }

    /// Handles a claim without an answer.
    pub fn failed(&mut self, shard: ShardId, now: Instant) {
        self.edit(shard, |claiming| {
            claiming.next = Some(now + RETRY);
            if let Ownership::Owned { claimed, .. } = &mut claiming.state {
                *claimed = now + RETRY - RENEW;
            }
        });
    }

    /// Handles the answer to a pump of an owned shard, other than a fence.
    pub fn pumped(&mut self, shard: ShardId, now: Instant) {
        self.edit(shard, |claiming| {
            if let Ownership::Owned { claimed, pumped } = &mut claiming.state {
                *pumped = now;
                claiming.next = claiming.next.map(|_| renewal(now, *claimed));
            }
        });
    }

    /// Stops owning a shard: another owner claimed the shard, or Redis does not have the shard.
    pub fn lost(&mut self, shard: ShardId, now: Instant) {
        self.edit(shard, |claiming| {
            claiming.state = Ownership::Watched;
            claiming.next = claiming.next.map(|_| now + TIMERS);
        });
    }

    /// Handles a shard that was given back.
    pub fn freed(&mut self, shard: ShardId, now: Instant) {
        self.edit(shard, |claiming| {
            if claiming.state == Ownership::Watched {
                claiming.freed = claiming.next.is_none();
                claiming.next = claiming.next.map(|_| now);
            }
        });
    }

    /// Claims every watched shard at once: notifications may be lost.
    pub fn missed_some(&mut self, now: Instant) {
        let all: Vec<ShardId> = self.shards.keys().copied().collect();
        all.into_iter().for_each(|shard| self.freed(shard, now));
    }

    fn edit(&mut self, shard: ShardId, change: impl FnOnce(&mut Claiming)) {
        let Some(claiming) = self.shards.get_mut(&shard) else { return };
        let before = claiming.next;
        change(claiming);
        let now = claiming.next;
        if let Some(next) = before {
            self.due.remove(&(next, shard));
        }
        if let Some(next) = now {
            self.due.insert((next, shard));
        }
    }
}

/// When to renew a lock that was claimed at `sent`, if the last pump was answered at `pumped`.
fn renewal(pumped: Instant, sent: Instant) -> Instant {
    let renewed = sent + RENEW;
    if renewed.saturating_duration_since(pumped) < LOCK { renewed } else { sent + 2 * LOCK }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    const A: ShardId = ShardId::new(3);

    struct Scene {
        locks: Locks,
        start: Instant,
    }

    impl Scene {
        fn new() -> Self {
            let (mut locks, start) = (Locks::default(), clock::steady());
            locks.add([A].into_iter(), start);
            assert_eq!(locks.take(start), [A]);
            Self { locks, start }
        }

        fn at(&self, ms: u64) -> Instant {
            self.start + Duration::from_millis(ms)
        }

        /// In ms.
        fn next(&self) -> Option<u64> {
            self.locks.next().map(|next| (next - self.start).as_millis() as u64)
        }
    }

    #[test]
    fn a_lock_is_renewed_while_pumps_are_answered_and_ends_when_they_are_not() {
        let mut scene = Scene::new();
        assert_eq!(scene.next(), None, "a claim is in flight");
        scene.locks.claimed(A, scene.start);
        assert_eq!(scene.next(), Some(4_000));
        scene.locks.pumped(A, scene.at(3_000));
        for second in [4, 8] {
            assert_eq!(scene.locks.take(scene.at(second * 1_000)), [A]);
            scene.locks.claimed(A, scene.at(second * 1_000));
        }
        assert_eq!(scene.next(), Some(12_000), "the last pump was answered nine seconds before");
        assert_eq!(scene.locks.take(scene.at(12_000)), [A]);
        scene.locks.claimed(A, scene.at(12_000));
        assert_eq!(scene.next(), Some(32_000), "another worker comes first");
        scene.locks.pumped(A, scene.at(12_500));
        assert_eq!(scene.next(), Some(16_000), "pumps are answered again");
        scene.locks.take(scene.at(16_000));
        scene.locks.failed(A, scene.at(16_000));
        scene.locks.pumped(A, scene.at(16_100));
        assert_eq!(scene.next(), Some(17_000));
    }

    #[test]
    fn a_shard_is_taken_when_the_lock_of_its_owner_ends_or_its_owner_gives_it_back() {
        let mut scene = Scene::new();
        scene.locks.refused(A, Some(Duration::from_secs(7)), scene.start);
        assert!((7_000..=7_500).contains(&scene.next().unwrap()));
        scene.locks.freed(A, scene.at(2_000));
        assert_eq!(scene.next(), Some(2_000));
        assert_eq!(scene.locks.take(scene.at(2_000)), [A]);
        scene.locks.freed(A, scene.at(2_001));
        scene.locks.refused(A, Some(Duration::from_secs(9)), scene.at(2_002));
        assert_eq!(scene.next(), Some(2_002), "the answer may be older than the message");
    }

    #[test]
    fn a_shard_of_a_timer_is_only_watched() {
        let mut scene = Scene::new();
        scene.locks.refused(A, None, scene.start);
        assert_eq!(scene.next(), Some(5_000));
        scene.locks.take(scene.at(5_000));
        scene.locks.claimed(A, scene.at(5_000));
        scene.locks.lost(A, scene.at(6_000));
        assert_eq!(scene.next(), Some(11_000), "a timer fenced the worker");
        scene.locks.take(scene.at(11_000));
        scene.locks.failed(A, scene.at(11_000));
        assert_eq!(scene.next(), Some(12_000));
    }

    #[test]
    fn what_is_owned_is_not_claimed_for_being_given_back() {
        let mut scene = Scene::new();
        scene.locks.claimed(A, scene.start);
        scene.locks.freed(A, scene.at(1_000));
        scene.locks.missed_some(scene.at(1_000));
        assert_eq!(scene.next(), Some(4_000));
    }
}
