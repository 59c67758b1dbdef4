//! What a measurement runs beside itself: the timers of its deployment.

use delayq_core::Client;

/// Timers that share the shards of a deployment.
///
/// # Contract
/// Each `run` is on a deployment of its own, which is empty at first; it goes on for as long as its future is polled, and
/// ends at once when that is dropped. What is counted is counted over all runs.
pub trait Fleet {
    /// Runs them.
    fn run(&self, client: Client) -> impl Future<Output = ()>;

    /// Whether the timers of the present run pump so many shards, about as many each.
    fn share(&self, shards: u64) -> bool;

    /// What they sent so far.
    fn calls(&self) -> PumpCalls;
}

/// Pumps of one shard that were answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PumpCalls {
    /// All that came for a due time.
    pub due: u64,
    /// Of these, those that found nothing.
    pub empty: u64,
}

// === impl PumpCalls ===

impl PumpCalls {
    /// The part of those that found nothing since `before`, in percent.
    pub(crate) fn empty_percent(self, before: Self) -> f64 {
        100.0 * (self.empty - before.empty) as f64 / (self.due - before.due).max(1) as f64
    }
}
