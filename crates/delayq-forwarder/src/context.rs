//! State shared by all batches, from reserve to settling.

use crate::progress::Progress;
use crate::stats::Stats;
use delayq::protocol::{Holder, Places};
use delayq_service::{Shutdown, Traces};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Shared by all batches, from reserve to settling.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) holder: Holder,
    pub(crate) places: Places,
    pub(crate) lease: Duration,
    pub(crate) stats: Stats,
    pub(crate) traces: Traces,
    pub(crate) give_up: Shutdown,
    freed: UnboundedSender<Freed>,
    progress: Arc<Mutex<Progress>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Freed {
    pub(crate) lane_number: usize,
    pub(crate) count: usize,
    pub(crate) bytes: usize,
    pub(crate) delivered: usize,
}

// === impl Context ===

impl Context {
    /// The second value receives capacity that batches free before the batch ends.
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

    pub(crate) fn progress(&self) -> MutexGuard<'_, Progress> {
        // Each change is a single insertion or removal: a panic cannot leave a half-made change.
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The batch has not ended yet.
    pub(crate) fn free(&self, freed: Freed) {
        let _ = self.freed.send(freed);
    }
}
