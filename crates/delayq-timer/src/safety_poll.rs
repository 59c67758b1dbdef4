//! The net below the wake-ups: periodic polls, whatever was notified.

use crate::rota::Rota;
use crate::schedule::Schedule;
use delayq::protocol::ShardId;
use std::time::{Duration, Instant};

/// Owned shards polled at once: a tenth of a millisecond of Redis's time.
const AT_ONCE: usize = 8;
/// The interval while Redis's clock is not trusted, or Redis does not answer.
const CLOSELY: Duration = Duration::from_secs(1);

pub(crate) struct SafetyPoll {
    interval: Duration,
    /// The next poll of everything but the owned shards, which take turns.
    next: Instant,
    owned: Rota,
}

// === impl SafetyPoll ===

impl SafetyPoll {
    /// Starts with a poll at once: a timer without shards learns only by this poll that Redis answers, and the time of
    /// Redis's clock.
    pub(crate) fn new(interval: Duration, now: Instant) -> Self {
        Self { interval, next: now, owned: Rota::new(interval, AT_ONCE, now) }
    }

    pub(crate) fn next(&self, shards: usize) -> Instant {
        self.next.min(self.owned.next(shards))
    }

    pub(crate) fn is_due(&self, now: Instant) -> bool {
        now >= self.next
    }

    pub(crate) fn at_once(&mut self, now: Instant) {
        self.next = now;
    }

    /// Something is wrong with Redis.
    pub(crate) fn closely(&mut self, now: Instant) {
        self.next = self.next.min(now + CLOSELY);
    }

    /// The next poll comes soon if something is `wrong`.
    pub(crate) fn sent(&mut self, wrong: bool, now: Instant) {
        let pause = if wrong { self.interval.min(CLOSELY) } else { self.interval };
        // A random pause, so that timers started together do not poll in step.
        self.next = now + pause.mul_f64(0.85 + 0.15 * fastrand::f64());
    }

    pub(crate) fn owned(&mut self, schedule: &Schedule, now: Instant) -> Vec<ShardId> {
        self.owned.take(schedule, now)
    }
}
