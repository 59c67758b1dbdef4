//! Compares Redis's clock with the local clock, and holds shards while Redis's clock cannot be trusted.

use crate::calls::{Call, Trip};
use crate::guard::{Comparison, Guard, Verdict};
use crate::node_id::NodeId;
use crate::schedule::Schedule;
use delayq::UnixMillis;
use delayq::protocol::{ShardId, UnixMicros};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Maximum network delay of a call before Redis's clock reads more than is believed possible; then the call is sent
/// again.
const ON_THE_WAY: Duration = Duration::from_millis(100);

/// The trust in a clock, and the holds of its shards.
///
/// An unknown hold is learned from the shard's answers: a held shard refuses the pump with that reason. So a hold that
/// may or may not have arrived is ended all the same.
pub(crate) struct ClockWatch {
    guard: Guard,
    held: BTreeSet<ShardId>,
    sent: BTreeMap<ShardId, bool>,
}

// === impl ClockWatch ===

impl ClockWatch {
    pub(crate) fn new(guard: Guard) -> Self {
        Self { guard, held: BTreeSet::new(), sent: BTreeMap::new() }
    }

    pub(crate) fn heir(&self) -> Self {
        Self::new(self.guard.heir())
    }

    pub(crate) fn is_jumped(&self) -> bool {
        self.guard.is_jumped()
    }

    pub(crate) fn holds_any(&self) -> bool {
        !self.held.is_empty()
    }

    /// As far as this timer knows.
    pub(crate) fn holds(&self, shard: ShardId) -> bool {
        self.is_jumped() || self.held.contains(&shard)
    }

    /// When a call sent now runs; `None` before the first comparison.
    pub(crate) fn latest(&self, now: Instant) -> Option<UnixMillis> {
        self.guard.latest(now, ON_THE_WAY)
    }

    pub(crate) fn compare(&mut self, trip: Trip, ran: UnixMicros) -> Verdict {
        self.guard.compare(Comparison { sent: trip.sent, ran, answered: trip.answered })
    }

    pub(crate) fn learn(&mut self, shard: ShardId, held: bool) {
        if held {
            self.held.insert(shard);
        } else if !self.held.is_empty() {
            self.held.remove(&shard);
        }
    }

    /// Without success the call is sent again.
    pub(crate) fn settled(&mut self, shard: ShardId, done: bool) {
        if let (Some(on), true) = (self.sent.remove(&shard), done) {
            self.learn(shard, on);
        }
    }

    /// Returns true if the shard was known to be held.
    pub(crate) fn drop(&mut self, shard: ShardId) -> bool {
        self.sent.remove(&shard);
        self.held.remove(&shard)
    }

    /// Holds to set or to end in the shards of this node. Answer each by [`Self::settled`].
    pub(crate) fn due(&mut self, schedule: &Schedule, node: NodeId, now: Instant) -> Vec<Call> {
        let on = self.is_jumped();
        if !on && !self.guard.is_proven(now) {
            return Vec::new();
        }
        let wrong = |shard: &ShardId| self.held.contains(shard) != on && !self.sent.contains_key(shard);
        let due: Vec<ShardId> = schedule.owned_at(node).filter(wrong).collect();
        self.sent.extend(due.iter().map(|&shard| (shard, on)));
        due.into_iter()
            .filter_map(|shard| Some(Call::Hold { shard, epoch: schedule.epoch(shard)?, on }))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ShardId = ShardId::new(1);
    const B: ShardId = ShardId::new(2);

    struct Scene {
        watch: ClockWatch,
        schedule: Schedule,
        start: Instant,
    }

    impl Scene {
        fn new() -> Self {
            let (start, second) = (Instant::now(), Duration::from_secs(1));
            let mut schedule = Schedule::new(10, Duration::ZERO);
            [A, B].into_iter().for_each(|shard| schedule.own(shard, 1, None));
            let watch = ClockWatch::new(Guard::new(start, second, second));
            let mut scene = Self { watch, schedule, start };
            scene.reads(0, 0);
            scene
        }

        /// At second `at`, with a clock that is `ahead` seconds ahead.
        fn reads(&mut self, at: u64, ahead: u64) -> Verdict {
            let sent = self.start + Duration::from_secs(at);
            self.watch.compare(
                Trip { sent, answered: sent, moved: false },
                UnixMicros((1_000 + at + ahead) * 1_000_000),
            )
        }

        /// True for a hold that is set, false for a hold that ends.
        fn due(&mut self, at: u64) -> Vec<(ShardId, bool)> {
            let calls = self
                .watch
                .due(&self.schedule, NodeId::default(), self.start + Duration::from_secs(at))
                .into_iter();
            calls
                .map(|call| match call {
                    Call::Hold { shard, on, .. } => (shard, on),
                    _ => panic!("no other call comes from the clock"),
                })
                .collect()
        }
    }

    #[test]
    fn a_jump_holds_every_shard_once_and_a_proven_clock_lets_them_go() {
        let mut scene = Scene::new();
        assert_eq!(scene.due(5), []);
        scene.reads(5, 100);
        assert_eq!(scene.due(5), [(A, true), (B, true)]);
        assert_eq!(scene.due(5), [], "they are under way");
        scene.watch.settled(A, true);
        scene.watch.settled(B, false);
        assert_eq!(scene.due(5), [(B, true)], "what failed is sent again");
        scene.watch.settled(B, true);
        assert_eq!(scene.reads(7, 100), Verdict::Steady);
        assert_eq!(scene.due(7), [(A, false), (B, false)]);
        scene.watch.settled(A, true);
        scene.watch.settled(B, false);
        assert_eq!(scene.due(7), [(B, false)], "what failed is sent again");
    }

    #[test]
    fn a_hold_that_nobody_is_known_to_have_made_is_ended() {
        let mut scene = Scene::new();
        scene.watch.learn(A, true);
        assert!(scene.watch.holds(A) && !scene.watch.holds(B));
        assert_eq!(scene.due(0), [], "the clock is not proven yet");
        assert_eq!(scene.due(5), [(A, false)]);
        scene.watch.settled(A, true);
        assert!(scene.due(5).is_empty() && !scene.watch.holds_any());
    }
}
