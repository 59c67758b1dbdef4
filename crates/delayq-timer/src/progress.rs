//! Judges whether due messages move: a timer that has connections to everything and moves nothing is not ready. Pure.
//!
//! ```text
//!            overdue and nothing moved, or a shard's pumps failed, for [`PATIENCE`]
//! Moving ──────────────────────────────────────────────────────────────────────────► Stalled
//!    ▲                                                                                  │
//!    └──────────────── something moved, or nothing is overdue, and no shard's pumps fail ┘
//! ```
//!
//! A topic that stays blocked stops no other topic: as long as anything moves now and then, the timer stays ready, and
//! only the oldest overdue time shows the blocked topic.

use delayq::protocol::ShardId;
use std::time::{Duration, Instant};

/// Maximum time that a message may be overdue without a move, and that the pumps of a shard may fail.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);

/// How long a move proves that a blocked message stops nothing else.
const MOVES_FOR: Duration = Duration::from_secs(30);

/// How long a report of blocked messages counts: the pump tries them again within ten seconds.
const BLOCKED_FOR: Duration = Duration::from_secs(15);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stall {
    /// A message is overdue, and nothing has moved.
    Still,
    /// The pumps of this shard fail.
    Failing(ShardId),
    /// Due messages of this shard are blocked, and nothing else moves.
    Blocked(ShardId),
}

/// The last moves.
#[derive(Clone, Debug)]
pub(crate) struct Progress {
    /// The last time that a message moved, or that nothing was overdue.
    well: Instant,
    moved: Option<Instant>,
}

/// The faults of the pumps of one shard.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    /// The first failed pump since the last answer.
    failing: Option<Instant>,
    /// The first and the last report of blocked messages.
    blocked: Option<(Instant, Instant)>,
}

// === impl Progress ===

impl Progress {
    pub(crate) const fn new(now: Instant) -> Self {
        Self { well: now, moved: None }
    }

    /// Records that a message moved.
    pub(crate) fn moved(&mut self, now: Instant) {
        (self.well, self.moved) = (now, Some(now));
    }

    /// Judges the progress of the owned shards, given how long the first due message has been waiting. Must be called
    /// once a second.
    pub(crate) fn judge<'a>(
        &mut self,
        shards: impl Iterator<Item = (ShardId, &'a Faults)> + Clone,
        overdue: Duration,
        now: Instant,
    ) -> Option<Stall> {
        if overdue < PATIENCE {
            self.well = now;
        }
        let is_long = |since: Instant| now.saturating_duration_since(since) >= PATIENCE;
        let mut failing = shards.clone().filter(|(_, faults)| faults.failing.is_some_and(is_long));
        let others_move = |first: Instant| {
            self.moved.is_some_and(|moved| moved >= first && now.saturating_duration_since(moved) < MOVES_FOR)
        };
        let is_blocked = |faults: &Faults| {
            faults.blocked_since(now).is_some_and(|first| is_long(first) && !others_move(first))
        };
        let mut blocked = shards.filter(|(_, faults)| is_blocked(faults));
        failing
            .next()
            .map(|(shard, _)| Stall::Failing(shard))
            .or_else(|| blocked.next().map(|(shard, _)| Stall::Blocked(shard)))
            .or_else(|| is_long(self.well).then_some(Stall::Still))
    }
}

// === impl Faults ===

impl Faults {
    /// Handles the answer to a pump; `blocked` is true if a due message could not be moved.
    pub(crate) fn answered(&mut self, blocked: bool, now: Instant) {
        self.failing = None;
        if blocked {
            self.blocked = Some((self.blocked_since(now).unwrap_or(now), now));
        }
    }

    pub(crate) fn failed(&mut self, now: Instant) {
        self.failing = self.failing.or(Some(now));
    }

    /// The first report of blocked messages; `None` if the last report no longer counts.
    fn blocked_since(&self, now: Instant) -> Option<Instant> {
        let is_recent = |&(_, last): &(Instant, Instant)| now.saturating_duration_since(last) < BLOCKED_FOR;
        self.blocked.filter(is_recent).map(|(first, _)| first)
    }

    pub(crate) fn blocked_for(&self, now: Instant) -> Duration {
        self.blocked_since(now).map_or(Duration::ZERO, |first| now.saturating_duration_since(first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    const A: ShardId = ShardId::new(1);
    const B: ShardId = ShardId::new(2);
    const LATE: Duration = Duration::from_secs(5);

    /// The progress, and the faults of A and B.
    struct Scene {
        progress: Progress,
        faults: BTreeMap<ShardId, Faults>,
    }

    impl Scene {
        fn new(now: Instant) -> Self {
            let faults = BTreeMap::from([A, B].map(|shard| (shard, Faults::default())));
            Self { progress: Progress::new(now), faults }
        }

        fn of(&mut self, shard: ShardId) -> &mut Faults {
            self.faults.get_mut(&shard).unwrap()
        }

        fn answered(&mut self, shard: ShardId, moved: bool, blocked: bool, now: Instant) {
            self.of(shard).answered(blocked, now);
            if moved {
                self.progress.moved(now);
            }
        }

        fn judge(&mut self, overdue: Duration, now: Instant) -> Option<Stall> {
            let shards = self.faults.iter().map(|(&shard, faults)| (shard, faults));
            self.progress.judge(shards, overdue, now)
        }
    }

    fn s(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    #[test]
    fn what_is_overdue_stalls_when_nothing_moves_for_two_seconds() {
        let start = Instant::now();
        let mut scene = Scene::new(start);
        assert_eq!(scene.judge(LATE, s(start, 1)), None);
        scene.answered(A, true, false, s(start, 2));
        assert_eq!(scene.judge(LATE, s(start, 3)), None, "a backlog that moves is no stall");
        scene.answered(A, false, false, s(start, 4));
        assert_eq!(scene.judge(LATE, s(start, 4)), Some(Stall::Still));
        assert_eq!(scene.judge(Duration::ZERO, s(start, 5)), None, "nothing is overdue");
        assert_eq!(scene.judge(LATE, s(start, 6)), None, "the time counts from there");
        assert_eq!(scene.judge(LATE, s(start, 7)), Some(Stall::Still));
    }

    #[test]
    fn one_shard_whose_pumps_fail_stalls_though_others_move() {
        let start = Instant::now();
        let mut scene = Scene::new(start);
        scene.of(A).failed(start);
        scene.of(A).failed(s(start, 1));
        scene.answered(B, true, false, s(start, 2));
        assert_eq!(scene.judge(Duration::ZERO, s(start, 2)), Some(Stall::Failing(A)));
        scene.answered(A, false, false, s(start, 3));
        assert_eq!(scene.judge(Duration::ZERO, s(start, 3)), None);
        scene.of(A).failed(s(start, 3));
        scene.faults.remove(&A);
        assert_eq!(scene.judge(Duration::ZERO, s(start, 9)), None, "another timer has it now");
    }

    #[test]
    fn what_is_blocked_stalls_until_something_moves_or_it_is_not_reported_again() {
        let start = Instant::now();
        let mut scene = Scene::new(start);
        scene.answered(A, false, true, start);
        assert_eq!(scene.judge(Duration::ZERO, s(start, 1)), None);
        scene.answered(A, false, false, s(start, 2));
        assert_eq!(
            scene.judge(Duration::ZERO, s(start, 2)),
            Some(Stall::Blocked(A)),
            "a poll proves nothing"
        );
        assert_eq!(scene.of(A).blocked_for(s(start, 9)), Duration::from_secs(9));
        scene.answered(A, false, true, s(start, 10));
        assert_eq!(scene.judge(Duration::ZERO, s(start, 20)), Some(Stall::Blocked(A)));
        assert_eq!(scene.judge(Duration::ZERO, s(start, 25)), None, "it is gone, or was moved by another");
        scene.answered(A, false, true, s(start, 26));
        scene.answered(B, true, false, s(start, 29));
        assert_eq!(scene.judge(Duration::ZERO, s(start, 29)), None, "one broken topic stops no other");
    }

    #[test]
    fn what_is_blocked_beside_what_moves_is_overdue_all_the_same() {
        let start = Instant::now();
        let mut scene = Scene::new(start);
        for second in [0, 5, 10] {
            scene.answered(A, true, true, s(start, second));
            scene.answered(B, true, false, s(start, second + 4));
            assert_eq!(scene.judge(Duration::ZERO, s(start, second + 4)), None);
        }
        assert_eq!(scene.of(A).blocked_for(s(start, 14)), Duration::from_secs(14));
        scene.answered(A, false, true, s(start, 24));
        scene.answered(A, false, true, s(start, 34));
        scene.answered(A, false, true, s(start, 44));
        assert_eq!(scene.judge(Duration::ZERO, s(start, 44)), Some(Stall::Blocked(A)), "nothing moves");
    }
}
