//! The net below the wake-ups: what is asked from time to time, whatever was notified.

use crate::rota::Rota;
use crate::schedule::Schedule;
use delayq::protocol::ShardId;
use std::time::{Duration, Instant};

/// Owned shards polled at once: a tenth of a millisecond of Redis's time.
const AT_ONCE: usize = 8;
/// The interval while Redis's clock is not trusted, or Redis does not answer.
const CLOSELY: Duration = Duration::from_secs(1);

/// When each poll is due.
pub(crate) struct SafetyPoll {
    interval: Duration,
    /// The next poll of everything but the owned shards, which take turns.
    next: Instant,
    owned: Rota,
}

// === impl SafetyPoll ===

impl SafetyPoll {
    /// The first is due at once: a timer that is given no shard learns Redis's clock, and that it answers, by it alone.
    pub(crate) fn new(interval: Duration, now: Instant) -> Self {
        Self { interval, next: now, owned: Rota::new(interval, AT_ONCE, now) }
    }

    /// When to ask again, with so many shards owned.
    pub(crate) fn next(&self, shards: usize) -> Instant {
        self.next.min(self.owned.next(shards))
    }

    pub(crate) fn is_due(&self, now: Instant) -> bool {
        now >= self.next
    }

    /// Polls now.
    pub(crate) fn at_once(&mut self, now: Instant) {
        self.next = now;
    }

    /// Polls closely from now on: something is wrong with Redis.
    pub(crate) fn closely(&mut self, now: Instant) {
        self.next = self.next.min(now + CLOSELY);
    }

    /// A poll was sent; the next one comes soon where something is `wrong`.
    pub(crate) fn sent(&mut self, wrong: bool, now: Instant) {
        let pause = if wrong { self.interval.min(CLOSELY) } else { self.interval };
        // Never in step with the other timers, which were perhaps started together.
        self.next = now + pause.mul_f64(0.85 + 0.15 * fastrand::f64());
    }

    /// The owned shards whose turn it is.
    pub(crate) fn owned(&mut self, schedule: &Schedule, now: Instant) -> Vec<ShardId> {
        self.owned.take(schedule, now)
    }
}
