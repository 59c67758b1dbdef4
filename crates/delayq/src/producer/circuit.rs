//! Whether Redis is known to be silent: while it is, a producer with a spool does not wait for deadlines.
//!
//! ```text
//! closed ── a write ends without an answer ──► open: writes go to the spool ── Redis answers a probe ──► closed
//! ```
//! The probes are sent in the background, so no caller pays for them.

use crate::calls::Calls;
use crate::error::Error;
use crate::server;
use delayq_core::shard::ShardId;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

/// The rest between two probes: it bounds how long writes go to the spool once Redis answers again.
const REST: Duration = Duration::from_millis(100);

/// How the error of a write begins that was not sent because the circuit is open.
const NOT_SENT: &str = "known to be silent, and nothing was sent";

/// The circuit of a producer. Cheap to clone: all clones are one circuit.
#[derive(Clone)]
pub(super) struct Circuit {
    calls: Calls,
    state: Arc<State>,
}

/// Why it is open; `None`: it is closed.
type State = Mutex<Option<Error>>;

/// Closes the circuit, also if the probes end with their runtime: the next write then finds out.
struct Closing(Weak<State>);

// === impl Circuit ===

impl Circuit {
    pub(super) fn new(calls: Calls) -> Self {
        Self { calls, state: Arc::default() }
    }

    /// Why nothing is sent now, while Redis is known to be silent.
    pub(super) fn outage(&self) -> Option<Error> {
        lock(&self.state).clone()
    }

    /// Opens the circuit if a write ended without an answer. Of a cluster one silent node says nothing about the others.
    pub(super) fn note(&self, error: &Error) {
        if self.calls.nodes().is_cluster() {
            return;
        }
        if error.is_silence() && !is_own(error) && self.open(error) {
            tracing::warn!(%error, "Redis is silent: writes go to the spool");
            tokio::spawn(probe(self.calls.clone(), Closing(Arc::downgrade(&self.state))));
        }
    }

    /// Whether it was closed before.
    fn open(&self, error: &Error) -> bool {
        let mut state = lock(&self.state);
        if state.is_some() {
            return false;
        }
        let why = format!("{NOT_SENT}; before: {error}");
        *state = Some(Error::Unreachable { address: self.calls.nodes().address(), why });
        true
    }
}

/// Whether an error is of a circuit: it may have closed since.
fn is_own(error: &Error) -> bool {
    matches!(error, Error::Unreachable { why, .. } if why.starts_with(NOT_SENT))
}

/// Probes until Redis gives any answer, or the producer has ended.
async fn probe(calls: Calls, closing: Closing) {
    while closing.0.strong_count() > 0 {
        match server::redis_time(&calls, ShardId::new(0)).await {
            Err(error) if error.is_silence() => tokio::time::sleep(REST).await,
            _ => return tracing::info!("Redis answers again"),
        }
    }
}

fn lock(state: &State) -> MutexGuard<'_, Option<Error>> {
    state.lock().expect("nothing panics while it holds the state")
}

// === impl Closing ===

impl Drop for Closing {
    fn drop(&mut self) {
        if let Some(state) = self.0.upgrade() {
            *lock(&state) = None;
        }
    }
}
