//! The leases of a consumer: limits the number of leases, and keeps each lease alive until the message is settled.
//!
//! A lease is extended after a third of the length that Redis answered, whether the consumer or the topic set the
//! length. Ends count from the sending of a call, so no lease is believed to last longer than it does.

use crate::calls::MAX_IDS_A_PIPELINE;
use crate::clock;
use crate::error::Error;
use crate::holder::Holder;
use delayq_core::time::UnixMillis;
use delayq_core::verbs::reserve::Receipt;
use delayq_core::verbs::settle::Settled;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// Maximum messages whose settlements wait for Redis while more are reserved: the size of one pipeline.
const MAX_UNCONFIRMED: usize = MAX_IDS_A_PIPELINE;

/// Minimum time between two attempts to extend a lease.
const PAUSE: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(super) struct Leases {
    most: usize,
    held: Mutex<Held>,
    freed: Notify,
    /// A new lease must be extended before the next planned extension, or the last lease ended.
    changed: Notify,
    stopping: CancellationToken,
}

#[derive(Debug, Default)]
struct Held {
    leases: HashMap<Receipt, Lease>,
    /// Number of leases in work, or not settled at the first attempt.
    busy: usize,
    next: Option<Instant>,
}

#[derive(Debug)]
struct Lease {
    length: Duration,
    ends: Instant,
    /// Time of the next extension; `None`: lost.
    due: Option<Instant>,
    lost: CancellationToken,
    is_busy: bool,
    origin: Origin,
}

/// The sending time of a call and the Redis clock in the answer, to convert Redis times to times of this host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    pub(super) sent: Instant,
    pub(super) now: UnixMillis,
}

// === impl Lease ===

impl Lease {
    fn new(origin: Origin, end: UnixMillis) -> Self {
        let length = end.since(origin.now).max(Duration::from_millis(1));
        let lost = CancellationToken::new();
        let mut lease = Self { length, ends: origin.sent, due: None, lost, is_busy: true, origin };
        lease.lasts_from(origin.sent);
        lease
    }

    fn lasts_from(&mut self, sent: Instant) {
        self.ends = sent + self.length;
        self.due = Some(sent + self.length / 3);
    }

    fn note(&mut self, sent: Instant, answer: Result<Settled, Error>) {
        match answer {
            Ok(Settled::Extended(end)) => self.extended(sent, end),
            Ok(Settled::ExtendedDoomed(end)) => {
                self.extended(sent, end);
                self.lost.cancel();
            }
            Ok(Settled::LeaseLost) => {
                self.due = None;
                self.lost.cancel();
            }
            failed => {
                tracing::warn!(answer = ?failed, "a lease was not extended; retrying before it expires");
                self.due = Some(clock::instant() + (self.length / 12).max(PAUSE));
            }
        }
    }

    /// A lease never becomes longer than before: an apparent increase means that Redis's clock was set.
    fn extended(&mut self, sent: Instant, end: UnixMillis) {
        let told = (self.origin.sent + end.since(self.origin.now)).saturating_duration_since(sent);
        if !told.is_zero() {
            self.length = told.min(self.length);
        }
        self.lasts_from(sent);
    }
}

// === impl Leases ===

impl Leases {
    pub(super) fn new(most: usize, stopping: CancellationToken) -> Self {
        Self { most, held: Mutex::default(), freed: Notify::new(), changed: Notify::new(), stopping }
    }

    pub(super) const fn most(&self) -> usize {
        self.most
    }

    /// Returns the number of further messages that may be reserved. A settlement that Redis has not confirmed takes no
    /// place, up to a limit: beyond that, extending the leases would cost more than settling the messages.
    pub(super) fn free(&self) -> usize {
        let held = self.held();
        let unconfirmed = held.leases.len() - held.busy;
        self.most.saturating_sub(held.busy).min(MAX_UNCONFIRMED.saturating_sub(unconfirmed))
    }

    /// Resolves when a place has become free since the last time. Cancel safe.
    pub(super) async fn freed(&self) {
        self.freed.notified().await;
    }

    /// Begins to keep a lease; the returned token is cancelled when the lease is lost.
    pub(super) fn begin(&self, receipt: Receipt, origin: Origin, end: UnixMillis) -> CancellationToken {
        let lease = Lease::new(origin, end);
        let (lost, due) = (lease.lost.clone(), lease.due);
        let mut held = self.held();
        if held.next.is_none() || due < held.next {
            held.next = due;
            self.changed.notify_one();
        }
        held.busy += 1;
        // A Redis that lost the last writes may issue a receipt again that is still held.
        if let Some(former) = held.leases.insert(receipt, lease) {
            held.busy -= usize::from(former.is_busy);
            former.lost.cancel();
        }
        lost
    }

    /// Frees the place of a finished message; the lease is kept until Redis is notified.
    pub(super) fn worked(&self, receipt: &Receipt) {
        self.set_busy(receipt, false);
    }

    /// Takes a place for a settlement that could not reach Redis: the settlement displaces new work.
    pub(super) fn unsettled(&self, receipt: &Receipt) {
        self.set_busy(receipt, true);
    }

    pub(super) fn end(&self, receipt: &Receipt) {
        let mut held = self.held();
        if let Some(lease) = held.leases.remove(receipt) {
            held.busy -= usize::from(lease.is_busy);
            self.freed.notify_one();
        }
        if held.leases.is_empty() && self.stopping.is_cancelled() {
            self.changed.notify_one();
        }
    }

    pub(super) fn lasts(&self, receipt: &Receipt) -> bool {
        self.held().leases.get(receipt).is_some_and(|lease| clock::instant() < lease.ends)
    }

    /// Extends each lease after each third of the length, until the consumer is stopped and no lease is left.
    pub(super) async fn keep_alive(self: Arc<Self>, holder: Holder, lease: Option<Duration>) {
        loop {
            let (next, stopped) = (self.plan(), self.stopping.is_cancelled());
            if stopped && self.held().leases.is_empty() {
                return;
            }
            tokio::select! {
                () = sleep_until(next.unwrap_or_else(clock::instant)), if next.is_some() => {}
                () = self.changed.notified() => continue,
                () = self.stopping.cancelled(), if !stopped => continue,
            }
            let (receipts, sent) = (self.due(clock::instant()), clock::instant());
            let answers = holder.extend(&receipts, lease).await;
            for (receipt, answer) in receipts.iter().zip(answers) {
                if let Some(lease) = self.held().leases.get_mut(receipt) {
                    lease.note(sent, answer);
                }
            }
        }
    }

    fn plan(&self) -> Option<Instant> {
        let mut held = self.held();
        held.next = held.leases.values().filter_map(|lease| lease.due).min();
        held.next
    }

    /// Includes leases that are due soon.
    fn due(&self, now: Instant) -> Vec<Receipt> {
        let soon = |lease: &Lease| lease.due.is_some_and(|due| due <= now + lease.length / 6);
        let held = self.held();
        held.leases.iter().filter(|(_, lease)| soon(lease)).map(|(receipt, _)| receipt.clone()).collect()
    }

    fn set_busy(&self, receipt: &Receipt, busy: bool) {
        let mut held = self.held();
        let Some(lease) = held.leases.get_mut(receipt) else { return };
        let was = std::mem::replace(&mut lease.is_busy, busy);
        held.busy = held.busy + usize::from(busy) - usize::from(was);
        if was && !busy {
            self.freed.notify_one();
        }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().expect("no code panics while holding the lock")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use delayq_core::shard::ShardId;

    const START_MS: u64 = 1_763_697_600_000;

    fn lease(length_ms: u64) -> (Lease, Instant) {
        let origin = Origin { sent: clock::instant(), now: UnixMillis::new(START_MS) };
        (Lease::new(origin, UnixMillis::new(START_MS + length_ms)), origin.sent)
    }

    #[test]
    fn a_lease_is_extended_at_a_third_of_the_length_that_redis_told() {
        let (mut lease, start) = lease(300);
        assert_eq!(lease.due, Some(start + Duration::from_millis(100)));
        for (sent_ms, end_ms, length_ms) in [
            (100, 400, 300),
            // The lease of the topic became shorter, or longer.
            (200, 290, 90),
            (230, 1_230, 90),
            // The clock of Redis was set back, and ahead.
            (260, 100, 90),
            (290, 90_000, 90),
        ] {
            let sent = start + Duration::from_millis(sent_ms);
            lease.note(sent, Ok(Settled::Extended(UnixMillis::new(START_MS + end_ms))));
            let length = Duration::from_millis(length_ms);
            assert_eq!((lease.ends, lease.due), (sent + length, Some(sent + length / 3)), "at {sent_ms} ms");
        }
    }

    #[test]
    fn an_extension_that_failed_is_tried_again_soon_and_one_of_a_lost_lease_is_not() {
        let (mut lease, start) = lease(30_000);
        let before = clock::instant();
        lease.note(start, Err(Error::Closed));
        assert!(lease.due.is_some_and(|due| due > before && due < lease.ends), "{lease:?}");
        lease.note(start, Ok(Settled::LeaseLost));
        assert!(lease.due.is_none() && lease.lost.is_cancelled());
    }

    #[test]
    fn what_is_being_settled_has_no_place_unless_it_has_to_be_tried_again() {
        let leases = Leases::new(2, CancellationToken::new());
        let receipt = Receipt::new(ShardId::new(0), vec![1]);
        let origin = Origin { sent: clock::instant(), now: UnixMillis::new(START_MS) };
        leases.begin(receipt.clone(), origin, UnixMillis::new(START_MS + 30_000));
        assert_eq!(leases.free(), 1);
        leases.worked(&receipt);
        assert!(leases.free() == 2 && leases.lasts(&receipt));
        leases.unsettled(&receipt);
        leases.unsettled(&receipt);
        assert_eq!(leases.free(), 1);
        leases.end(&receipt);
        leases.end(&receipt);
        assert!(leases.free() == 2 && !leases.lasts(&receipt));
    }

    #[test]
    fn a_receipt_that_is_given_again_while_it_is_held_takes_one_place_and_the_first_lease_is_lost() {
        for worked in [false, true] {
            let leases = Leases::new(2, CancellationToken::new());
            let receipt = Receipt::new(ShardId::new(0), vec![1]);
            let origin = Origin { sent: clock::instant(), now: UnixMillis::new(START_MS) };
            let begin = || leases.begin(receipt.clone(), origin, UnixMillis::new(START_MS + 30_000));
            let first = begin();
            if worked {
                leases.worked(&receipt);
            }
            let second = begin();
            assert_eq!((first.is_cancelled(), second.is_cancelled(), leases.free()), (true, false, 1));
            for _ in [first, second] {
                leases.worked(&receipt);
                leases.end(&receipt);
            }
            assert_eq!(leases.free(), 2);
        }
    }

    #[test]
    fn nothing_more_is_reserved_while_too_many_settlements_are_not_confirmed() {
        let leases = Leases::new(2, CancellationToken::new());
        let origin = Origin { sent: clock::instant(), now: UnixMillis::new(START_MS) };
        let receipt = |n: usize| Receipt::new(ShardId::new(0), n.to_be_bytes().to_vec());
        for n in 0..MAX_UNCONFIRMED {
            assert!(leases.free() > 0, "{n} wait");
            leases.begin(receipt(n), origin, UnixMillis::new(START_MS + 30_000));
            leases.worked(&receipt(n));
        }
        assert_eq!(leases.free(), 0);
        leases.end(&receipt(0));
        assert_eq!(leases.free(), 1);
    }
}
