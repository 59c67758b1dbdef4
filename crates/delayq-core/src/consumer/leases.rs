//! The leases of a consumer: how many there may be, and keeping them alive.

use crate::{Client, Receipt, Settled};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};
use tokio::{sync::Notify, time::sleep};
use tokio_util::sync::CancellationToken;

/// How often leases are extended where their length is the topic's: a third of the default lease.
const EXTEND_EVERY: Duration = Duration::from_secs(10);

/// What is handed out and not settled.
#[derive(Debug)]
pub(super) struct Leases {
    most: usize,
    held: Mutex<HashMap<Receipt, CancellationToken>>,
    freed: Notify,
}

// === impl Leases ===

impl Leases {
    pub(super) fn new(most: usize) -> Self {
        Self { most, held: Mutex::default(), freed: Notify::new() }
    }

    /// How many more may be reserved.
    pub(super) fn free(&self) -> usize {
        self.most.saturating_sub(self.held().len())
    }

    /// Resolves when a lease ended since the last time. Safe to drop.
    pub(super) async fn freed(&self) {
        self.freed.notified().await;
    }

    /// Begins to keep a lease; the token says when it is lost.
    pub(super) fn begin(&self, receipt: Receipt) -> CancellationToken {
        let lost = CancellationToken::new();
        self.held().insert(receipt, lost.clone());
        lost
    }

    /// Keeps a lease no longer.
    pub(super) fn end(&self, receipt: &Receipt) {
        self.held().remove(receipt);
        self.freed.notify_one();
    }

    /// Extends all leases three times in the length of one, until there are none after `stopping`.
    pub(super) async fn keep_alive(
        self: Arc<Self>,
        client: Client,
        lease: Option<Duration>,
        stopping: CancellationToken,
    ) {
        let every = lease.map_or(EXTEND_EVERY, |lease| lease / 3);
        loop {
            if stopping.is_cancelled() {
                if self.held().is_empty() {
                    return;
                }
                tokio::select! {
                    () = sleep(every) => {}
                    () = self.freed() => continue,
                }
            } else {
                tokio::select! {
                    () = sleep(every) => {}
                    () = stopping.cancelled() => continue,
                }
            }
            let receipts: Vec<Receipt> = self.held().keys().cloned().collect();
            let answers = client.extend(&receipts, lease).await;
            for (receipt, answer) in receipts.iter().zip(answers) {
                self.note(receipt, answer);
            }
        }
    }

    fn note(&self, receipt: &Receipt, answer: Result<Settled, crate::Error>) {
        match answer {
            Ok(Settled::Expired | Settled::ExtendedDoomed(_)) => {
                if let Some(lost) = self.held().get(receipt) {
                    lost.cancel();
                }
            }
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(%error, "a lease was not extended; it is tried again before it ends");
            }
        }
    }

    fn held(&self) -> MutexGuard<'_, HashMap<Receipt, CancellationToken>> {
        self.held.lock().expect("nothing panics while it holds the leases")
    }
}
