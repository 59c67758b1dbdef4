//! The leases of a consumer: how many there may be, and keeping each of them alive until its message is settled.
//!
//! A lease is extended at a third of the length that Redis told of it, whoever set that: the consumer, or the topic.
//! Ends are reckoned from when a call was sent, so none is believed to last longer than it does.

use crate::{Client, Error, Receipt, Settled, UnixMillis};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

/// The least between two tries to extend a lease.
const PAUSE: Duration = Duration::from_millis(20);

/// What is handed out and not settled.
#[derive(Debug)]
pub(super) struct Leases {
    most: usize,
    held: Mutex<Held>,
    freed: Notify,
    /// A lease was begun that has to be extended before the next extension that was planned; or the last one ended.
    changed: Notify,
    stopping: CancellationToken,
}

#[derive(Debug, Default)]
struct Held {
    leases: HashMap<Receipt, Lease>,
    /// How many of them somebody works on, or could not be settled at the first try.
    busy: usize,
    /// When the next extension is planned.
    next: Option<Instant>,
}

#[derive(Debug)]
struct Lease {
    length: Duration,
    ends: Instant,
    /// When it is to be extended; `None`: it is lost.
    due: Option<Instant>,
    lost: CancellationToken,
    is_busy: bool,
    origin: Origin,
}

/// When a call was sent, and what Redis's clock read when it answered: by that its times become those of this host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    /// When the call was sent.
    pub(super) sent: Instant,
    /// What Redis's clock read.
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

    /// Takes in what an extension that was sent then was answered.
    fn note(&mut self, sent: Instant, answer: Result<Settled, Error>) {
        match answer {
            Ok(Settled::Extended(end)) => self.extended(sent, end),
            Ok(Settled::ExtendedDoomed(end)) => {
                self.extended(sent, end);
                self.lost.cancel();
            }
            Ok(Settled::Expired) => {
                self.due = None;
                self.lost.cancel();
            }
            failed => {
                tracing::warn!(answer = ?failed, "a lease was not extended; it is tried again before it ends");
                self.due = Some(now() + (self.length / 12).max(PAUSE));
            }
        }
    }

    /// One that looks longer than before is not: it was Redis's clock that was set.
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

    /// How many more may be reserved.
    pub(super) fn free(&self) -> usize {
        self.most.saturating_sub(self.held().busy)
    }

    /// Resolves when a place became free since the last time. Safe to drop.
    pub(super) async fn freed(&self) {
        self.freed.notified().await;
    }

    /// Begins to keep a lease; the token says when it is lost.
    pub(super) fn begin(&self, receipt: Receipt, origin: Origin, end: UnixMillis) -> CancellationToken {
        let lease = Lease::new(origin, end);
        let (lost, due) = (lease.lost.clone(), lease.due);
        let mut held = self.held();
        if held.next.is_none() || due < held.next {
            held.next = due;
            self.changed.notify_one();
        }
        held.busy += 1;
        held.leases.insert(receipt, lease);
        lost
    }

    /// The work is over: its place is free, and the lease is kept until Redis is told.
    pub(super) fn worked(&self, receipt: &Receipt) {
        self.set_busy(receipt, false);
    }

    /// Redis could not be told: what waits to be settled takes the place of new work.
    pub(super) fn unsettled(&self, receipt: &Receipt) {
        self.set_busy(receipt, true);
    }

    /// Keeps a lease no longer.
    pub(super) fn end(&self, receipt: &Receipt) {
        let mut held = self.held();
        if held.leases.remove(receipt).is_some_and(|lease| lease.is_busy) {
            held.busy -= 1;
            self.freed.notify_one();
        }
        if held.leases.is_empty() && self.stopping.is_cancelled() {
            self.changed.notify_one();
        }
    }

    /// Whether a lease is known to last still.
    pub(super) fn lasts(&self, receipt: &Receipt) -> bool {
        self.held().leases.get(receipt).is_some_and(|lease| now() < lease.ends)
    }

    /// Extends each lease three times in its length, until there are none once the consumer is stopped.
    pub(super) async fn keep_alive(self: Arc<Self>, client: Client, lease: Option<Duration>) {
        loop {
            let (next, stopped) = (self.plan(), self.stopping.is_cancelled());
            if stopped && self.held().leases.is_empty() {
                return;
            }
            tokio::select! {
                () = sleep_until(next.unwrap_or_else(now)), if next.is_some() => {}
                () = self.changed.notified() => continue,
                () = self.stopping.cancelled(), if !stopped => continue,
            }
            let (receipts, sent) = (self.due(now()), now());
            let answers = client.extend(&receipts, lease).await;
            for (receipt, answer) in receipts.iter().zip(answers) {
                if let Some(lease) = self.held().leases.get_mut(receipt) {
                    lease.note(sent, answer);
                }
            }
        }
    }

    /// When the next extension is due.
    fn plan(&self) -> Option<Instant> {
        let mut held = self.held();
        held.next = held.leases.values().filter_map(|lease| lease.due).min();
        held.next
    }

    /// Those that are to be extended now, and those that would be soon.
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
        self.held.lock().expect("nothing panics while it holds the leases")
    }
}

#[allow(clippy::disallowed_methods, reason = "tokio's clock, which tests can pause")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ShardId;

    const START_MS: u64 = 1_763_697_600_000;

    fn lease(length_ms: u64) -> (Lease, Instant) {
        let origin = Origin { sent: now(), now: UnixMillis::new(START_MS) };
        (Lease::new(origin, UnixMillis::new(START_MS + length_ms)), origin.sent)
    }

    #[test]
    fn a_lease_is_extended_at_a_third_of_the_length_that_redis_told() {
        let (mut lease, start) = lease(300);
        assert_eq!(lease.due, Some(start + Duration::from_millis(100)));
        for (sent_ms, end_ms, length_ms) in [
            (100, 400, 300),
            // Its topic's lease became shorter, or longer.
            (200, 290, 90),
            (230, 1_230, 90),
            // Redis's clock was set back, and ahead.
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
        let before = now();
        lease.note(start, Err(Error::Closed));
        assert!(lease.due.is_some_and(|due| due > before && due < lease.ends), "{lease:?}");
        lease.note(start, Ok(Settled::Expired));
        assert!(lease.due.is_none() && lease.lost.is_cancelled());
    }

    #[test]
    fn what_is_being_settled_has_no_place_unless_it_has_to_be_tried_again() {
        let leases = Leases::new(2, CancellationToken::new());
        let receipt = Receipt { shard: ShardId::new(0), bytes: vec![1] };
        let origin = Origin { sent: now(), now: UnixMillis::new(START_MS) };
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
}
