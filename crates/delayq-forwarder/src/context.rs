//! What all batches share, from reserve to settling.

use crate::progress::Progress;
use crate::stats::Stats;
use delayq::protocol::{Holder, Places};
use delayq_service::{Shutdown, Traces};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// What all batches share.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) holder: Holder,
    /// Which Redis has which shard.
    pub(crate) places: Places,
    pub(crate) lease: Duration,
    pub(crate) stats: Stats,
    pub(crate) traces: Traces,
    /// Requested when messages that are not delivered yet are to be given back.
    pub(crate) give_up: Shutdown,
    freed: UnboundedSender<Freed>,
    progress: Arc<Mutex<Progress>>,
}

/// Room of a lane that is free again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Freed {
    pub(crate) lane_number: usize,
    pub(crate) count: usize,
    /// Bytes of payloads.
    pub(crate) bytes: usize,
    /// How many of the messages were delivered.
    pub(crate) delivered: usize,
}

// === impl Context ===

impl Context {
    /// The second value receives what batches free before they end.
    pub(crate) fn new(
        holder: Holder,
        lease: Duration,
        stats: Stats,
        traces: Traces,
    ) -> (Self, UnboundedReceiver<Freed>) {
        let (freed, receiver) = unbounded_channel();
        let (places, give_up, progress) = (holder.places(), Shutdown::new(), Arc::default());
        (Self { holder, places, lease, stats, traces, give_up, freed, progress }, receiver)
    }

    /// Whether messages move.
    pub(crate) fn progress(&self) -> MutexGuard<'_, Progress> {
        // It changes by one insertion or removal: a panic cannot leave it half changed.
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports what a batch frees before it ends.
    pub(crate) fn free(&self, freed: Freed) {
        // Nobody counts while draining.
        let _ = self.freed.send(freed);
    }
}
