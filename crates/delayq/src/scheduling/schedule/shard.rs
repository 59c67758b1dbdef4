//! One owned shard of the schedule.

use super::round::{Found, Pipeline};
use crate::scheduling::node_id::NodeId;
use delayq_core::time::UnixMillis;
use std::time::{Duration, Instant};

/// How long a shard rests after a failed call; doubled after each further failure.
pub(super) const FIRST_RETRY: Duration = Duration::from_millis(20);
const LONGEST_RETRY: Duration = Duration::from_secs(1);
/// How long a shard rests after a pump left a due message in place.
pub(super) const STUCK_RETRY: Duration = Duration::from_millis(5);

/// An owned shard.
#[derive(Clone, Debug)]
pub(super) struct Shard<K> {
    pub(super) epoch: u64,
    pub(super) node: NodeId,
    /// The earliest due time; lowered by wakes, replaced by answers.
    pub(super) next_due: Option<UnixMillis>,
    /// The earliest wake received while a call was in flight: the call's answer may be older than the wake.
    pub(super) woken: Option<UnixMillis>,
    pub(super) out: Option<Pipeline>,
    /// Poll even if nothing is due.
    pub(super) poll: bool,
    /// The last call was sent for a due time, and not only as a poll.
    pub(super) sent_for_due: bool,
    pub(super) more: bool,
    pub(super) resting: Option<Instant>,
    pub(super) failures: u32,
    /// The node holds the shard, as far as its answers tell: no pump is sent.
    pub(super) held: bool,
    /// The hold (true) or end of a hold in flight.
    pub(super) hold_sent: Option<bool>,
    /// The clock of the shard's node is not trusted: no pump is sent.
    pub(super) jumped: bool,
    /// Set while ownership is in doubt: no pump is sent until the shard is owned again.
    pub(super) doubted: bool,
    pub(super) turn: u64,
    pub(super) kept: K,
}

// === impl Shard ===

impl<K> Shard<K> {
    pub(super) fn new(node: NodeId, epoch: u64, turn: u64) -> Self
    where
        K: Default,
    {
        Self {
            epoch,
            node,
            next_due: None,
            woken: None,
            out: None,
            poll: false,
            sent_for_due: false,
            more: false,
            resting: None,
            failures: 0,
            held: false,
            hold_sent: None,
            jumped: false,
            doubted: false,
            turn,
            kept: K::default(),
        }
    }

    /// Returns true if no pump may be sent.
    pub(super) const fn is_stopped(&self) -> bool {
        self.held || self.jumped || self.doubted
    }

    /// Changes whether the shard is stopped; a shard that continues is polled.
    pub(super) fn stop(&mut self, change: impl FnOnce(&mut Self)) {
        let was_stopped = self.is_stopped();
        change(self);
        self.poll |= was_stopped && !self.is_stopped();
    }

    pub(super) fn answered(&mut self, answer: Found, now: Instant) {
        self.out = None;
        if let Some(held) = answer.held {
            self.stop(|shard| shard.held = held);
        }
        self.failures = 0;
        self.more = answer.more;
        self.next_due = earlier(answer.next_due, self.woken.take());
        // Without a rest, a passed due time that stays in place would be asked for again and again.
        let stuck = !answer.more && answer.next_due.is_some_and(|due| due <= answer.now);
        self.resting = stuck.then(|| now + STUCK_RETRY);
    }

    /// Rests, the longer the more calls have failed.
    pub(super) fn failed(&mut self, now: Instant) {
        self.out = None;
        self.woken = None;
        self.more = false;
        self.poll = true;
        let rest = FIRST_RETRY * 2_u32.saturating_pow(self.failures.min(16));
        self.resting = Some(now + rest.min(LONGEST_RETRY));
        self.failures += 1;
    }
}

pub(super) fn earlier(one: Option<UnixMillis>, other: Option<UnixMillis>) -> Option<UnixMillis> {
    [one, other].into_iter().flatten().min()
}
