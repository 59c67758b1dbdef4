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
use std::collections::BTreeMap;
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

#[derive(Clone, Debug)]
pub(crate) struct Progress {
    /// The last time that a message moved, or that nothing was overdue.
    well: Instant,
    moved: Option<Instant>,
    /// Shards with failing pumps, and the first failure since the last answer.
    failing: BTreeMap<ShardId, Instant>,
    /// Shards that reported blocked messages: the first and the last report.
    blocked: BTreeMap<ShardId, (Instant, Instant)>,
}

// === impl Progress ===

impl Progress {
    pub(crate) const fn new(now: Instant) -> Self {
        Self { well: now, moved: None, failing: BTreeMap::new(), blocked: BTreeMap::new() }
    }

    /// `moved`: a message moved; `blocked`: a due message could not be moved.
    pub(crate) fn answered(&mut self, shard: ShardId, moved: bool, blocked: bool, now: Instant) {
        self.failing.remove(&shard);
        if moved {
            (self.well, self.moved) = (now, Some(now));
        }
        if blocked {
            self.blocked.entry(shard).or_insert((now, now)).1 = now;
        }
    }

    pub(crate) fn failed(&mut self, shard: ShardId, now: Instant) {
        self.failing.entry(shard).or_insert(now);
    }

    pub(crate) fn drop(&mut self, shard: ShardId) {
        self.failing.remove(&shard);
        self.blocked.remove(&shard);
    }

    pub(crate) fn blocked_for(&self, now: Instant) -> Duration {
        let first = self.blocked.values().map(|&(first, _)| first).min();
        first.map_or(Duration::ZERO, |first| now.saturating_duration_since(first))
    }

    /// `overdue`: how long the first due message has been waiting. Must be called once a second.
    pub(crate) fn judge(&mut self, overdue: Duration, now: Instant) -> Option<Stall> {
        if overdue < PATIENCE {
            self.well = now;
        }
        self.blocked.retain(|_, (_, last)| now.saturating_duration_since(*last) < BLOCKED_FOR);
        let is_long = |since: Instant| now.saturating_duration_since(since) >= PATIENCE;
        let failing = self.failing.iter().find(|(_, since)| is_long(**since));
        let others_move = |first: Instant| {
            self.moved.is_some_and(|moved| moved >= first && now.saturating_duration_since(moved) < MOVES_FOR)
        };
        let blocked = self.blocked.iter().find(|(_, (first, _))| is_long(*first) && !others_move(*first));
        failing
            .map(|(&shard, _)| Stall::Failing(shard))
            .or_else(|| blocked.map(|(&shard, _)| Stall::Blocked(shard)))
            .or_else(|| is_long(self.well).then_some(Stall::Still))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ShardId = ShardId::new(1);
    const B: ShardId = ShardId::new(2);
    const LATE: Duration = Duration::from_secs(5);

    fn s(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    #[test]
    fn what_is_overdue_stalls_when_nothing_moves_for_two_seconds() {
        let start = Instant::now();
        let mut progress = Progress::new(start);
        assert_eq!(progress.judge(LATE, s(start, 1)), None);
        progress.answered(A, true, false, s(start, 2));
        assert_eq!(progress.judge(LATE, s(start, 3)), None, "a backlog that moves is no stall");
        progress.answered(A, false, false, s(start, 4));
        assert_eq!(progress.judge(LATE, s(start, 4)), Some(Stall::Still));
        assert_eq!(progress.judge(Duration::ZERO, s(start, 5)), None, "nothing is overdue");
        assert_eq!(progress.judge(LATE, s(start, 6)), None, "the time counts from there");
        assert_eq!(progress.judge(LATE, s(start, 7)), Some(Stall::Still));
    }

    #[test]
    fn one_shard_whose_pumps_fail_stalls_though_others_move() {
        let start = Instant::now();
        let mut progress = Progress::new(start);
        progress.failed(A, start);
        progress.failed(A, s(start, 1));
        progress.answered(B, true, false, s(start, 2));
        assert_eq!(progress.judge(Duration::ZERO, s(start, 2)), Some(Stall::Failing(A)));
        progress.answered(A, false, false, s(start, 3));
        assert_eq!(progress.judge(Duration::ZERO, s(start, 3)), None);
        progress.failed(A, s(start, 3));
        progress.drop(A);
        assert_eq!(progress.judge(Duration::ZERO, s(start, 9)), None, "another timer has it now");
    }

    #[test]
    fn what_is_blocked_stalls_until_something_moves_or_it_is_not_reported_again() {
        let start = Instant::now();
        let mut progress = Progress::new(start);
        progress.answered(A, false, true, start);
        assert_eq!(progress.judge(Duration::ZERO, s(start, 1)), None);
        progress.answered(A, false, false, s(start, 2));
        assert_eq!(
            progress.judge(Duration::ZERO, s(start, 2)),
            Some(Stall::Blocked(A)),
            "a poll proves nothing"
        );
        assert_eq!(progress.blocked_for(s(start, 9)), Duration::from_secs(9));
        progress.answered(A, false, true, s(start, 10));
        assert_eq!(progress.judge(Duration::ZERO, s(start, 20)), Some(Stall::Blocked(A)));
        assert_eq!(progress.judge(Duration::ZERO, s(start, 25)), None, "it is gone, or was moved by another");
        progress.answered(A, false, true, s(start, 26));
        progress.answered(B, true, false, s(start, 29));
        assert_eq!(progress.judge(Duration::ZERO, s(start, 29)), None, "one broken topic stops no other");
    }

    #[test]
    fn what_is_blocked_beside_what_moves_is_overdue_all_the_same() {
        let start = Instant::now();
        let mut progress = Progress::new(start);
        for second in [0, 5, 10] {
            progress.answered(A, true, true, s(start, second));
            progress.answered(B, true, false, s(start, second + 4));
            assert_eq!(progress.judge(Duration::ZERO, s(start, second + 4)), None);
        }
        assert_eq!(progress.blocked_for(s(start, 14)), Duration::from_secs(14));
        progress.answered(A, false, true, s(start, 24));
        progress.answered(A, false, true, s(start, 34));
        progress.answered(A, false, true, s(start, 44));
        assert_eq!(progress.judge(Duration::ZERO, s(start, 44)), Some(Stall::Blocked(A)), "nothing moves");
    }
}
