//! Progress: a forwarder with every connection open is still not ready if ready messages do not move. Pure.
//!
//! An unavailable destination is no stall: its circuit reports the fault, and neither a restart nor another forwarder
//! would help. A pause, a rate limit and a slow delivery (with its own timeout) are no stall either.

use delayq::protocol::ShardId;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Tolerated duration of a failure.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);
/// Time for which a failed settlement counts: the lease then runs out and the message is delivered again.
const UNSETTLED_FOR: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stall {
    /// This shard returns no messages.
    Reserving(ShardId),
    /// This shard accepts no settlements: messages would be delivered again and again.
    Settling(ShardId),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    reserving: BTreeMap<(usize, ShardId), Instant>,
    /// First and last failure.
    settling: BTreeMap<ShardId, (Instant, Instant)>,
}

// === impl Progress ===

impl Progress {
    pub(crate) fn reserved(&mut self, lane: usize, shard: ShardId, answered: bool, now: Instant) {
        if answered {
            self.reserving.remove(&(lane, shard));
        } else {
            self.reserving.entry((lane, shard)).or_insert(now);
        }
    }

    pub(crate) fn settled(&mut self, shard: ShardId, taken: bool, now: Instant) {
        if taken {
            self.settling.remove(&shard);
        } else {
            self.settling.entry(shard).or_insert((now, now)).1 = now;
        }
    }

    pub(crate) fn serve(&mut self, shards: &[ShardId]) {
        self.reserving.retain(|(_, shard), _| shards.contains(shard));
    }

    /// Only an ask can show a recovery.
    pub(crate) fn failing(&self, shard: ShardId) -> Vec<usize> {
        self.reserving.keys().filter(|(_, of)| *of == shard).map(|(lane, _)| *lane).collect()
    }

    /// `rests`: whether a lane's circuit is open, so that the lane asks for nothing.
    pub(crate) fn judge(&mut self, rests: impl Fn(usize) -> bool, now: Instant) -> Option<Stall> {
        let is_long = |since: Instant| now.saturating_duration_since(since) >= PATIENCE;
        self.settling.retain(|_, (_, last)| now.saturating_duration_since(*last) < UNSETTLED_FOR);
        let settling = self.settling.iter().find(|(_, (since, _))| is_long(*since));
        let reserving = self.reserving.iter().find(|((lane, _), since)| is_long(**since) && !rests(*lane));
        settling
            .map(|(&shard, _)| Stall::Settling(shard))
            .or_else(|| reserving.map(|(&(_, shard), _)| Stall::Reserving(shard)))
    }
}

// === impl Stall ===

impl Stall {
    pub(crate) fn text(self) -> String {
        match self {
            Self::Reserving(shard) => {
                format!("shard {shard} has returned only errors for 2 s: see the log")
            }
            Self::Settling(shard) => {
                format!("shard {shard} does not accept settlements: see the log")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ShardId = ShardId::new(1);
    const B: ShardId = ShardId::new(2);

    const fn awake(_lane: usize) -> bool {
        false
    }

    fn s(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    #[test]
    fn a_shard_that_gives_nothing_but_errors_stalls_though_others_give_messages() {
        let start = Instant::now();
        let mut progress = Progress::default();
        progress.reserved(0, A, false, start);
        progress.reserved(0, B, true, s(start, 1));
        assert_eq!(progress.judge(awake, s(start, 1)), None);
        progress.reserved(0, A, false, s(start, 2));
        assert_eq!(progress.judge(awake, s(start, 2)), Some(Stall::Reserving(A)));
        assert_eq!(progress.failing(A), [0]);
        progress.reserved(0, A, true, s(start, 3));
        assert_eq!(progress.judge(awake, s(start, 9)), None);
    }

    #[test]
    fn a_lane_that_rests_and_a_shard_of_another_forwarder_stall_nothing() {
        let start = Instant::now();
        let mut progress = Progress::default();
        progress.reserved(0, A, false, start);
        assert_eq!(progress.judge(|lane| lane == 0, s(start, 9)), None);
        assert_eq!(progress.judge(awake, s(start, 9)), Some(Stall::Reserving(A)));
        progress.serve(&[B]);
        assert_eq!(progress.judge(awake, s(start, 9)), None);
    }

    #[test]
    fn what_cannot_be_settled_stalls_until_it_can_or_has_not_been_tried_for_long() {
        let start = Instant::now();
        let mut progress = Progress::default();
        progress.settled(A, false, start);
        progress.settled(B, true, s(start, 2));
        assert_eq!(progress.judge(awake, s(start, 2)), Some(Stall::Settling(A)));
        progress.settled(A, false, s(start, 30));
        assert_eq!(progress.judge(awake, s(start, 89)), Some(Stall::Settling(A)));
        assert_eq!(progress.judge(awake, s(start, 90)), None, "another forwarder settles it");
        progress.settled(A, false, s(start, 91));
        progress.settled(A, true, s(start, 92));
        assert_eq!(progress.judge(awake, s(start, 99)), None);
    }
}
