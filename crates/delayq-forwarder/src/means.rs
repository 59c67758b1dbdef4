//! What every batch needs, from being asked for to being settled.

use crate::stats::Stats;
use delayq_core::Client;
use delayq_service::Shutdown;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// What every batch needs.
#[derive(Clone)]
pub(crate) struct Means {
    pub(crate) client: Client,
    pub(crate) lease: Duration,
    pub(crate) stats: Stats,
    /// When what is not delivered yet is given back.
    pub(crate) give_up: Shutdown,
    freed: UnboundedSender<Freed>,
}

/// What of a lane is on its way no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Freed {
    pub(crate) lane_number: usize,
    pub(crate) count: usize,
    /// Of payloads.
    pub(crate) bytes: usize,
    /// How many of them were delivered.
    pub(crate) delivered: usize,
}

// === impl Means ===

impl Means {
    /// And where to hear what batches free before they end.
    pub(crate) fn new(client: Client, lease: Duration, stats: Stats) -> (Self, UnboundedReceiver<Freed>) {
        let (freed, hear) = unbounded_channel();
        (Self { client, lease, stats, give_up: Shutdown::new(), freed }, hear)
    }

    /// Says what a batch frees before it ends.
    pub(crate) fn free(&self, freed: Freed) {
        // Nobody counts any more while draining.
        let _ = self.freed.send(freed);
    }
}
