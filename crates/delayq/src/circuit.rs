//! Which nodes are known to be silent: while one is, a producer does not wait for its deadlines, and messages with generated
//! ids go to others.
//!
//! ```text
//! closed ── a write ends without an answer ──► open: writes fail or are spooled ── the node answers a probe ──► closed
//! ```
//! Each node has a circuit of its own: one that is silent says nothing about the others. The probes are sent in the
//! background, so no caller pays for them.

use crate::calls::Calls;
use crate::error::Error;
use crate::server;
use crate::topology::Nodes;
use delayq_core::shard::ShardId;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

/// The rest between two probes: it bounds how long writes go to the spool once Redis answers again.
const REST: Duration = Duration::from_millis(100);

/// How the error of a write begins that was not sent because the circuit is open.
const NOT_SENT: &str = "known to be silent, and nothing was sent";

/// The circuits of a producer. Cheap to clone: all clones are the same circuits.
#[derive(Clone)]
pub(crate) struct Circuit {
    calls: Calls,
    /// Whether there is anything else to do than to wait: a spool to go to, or another node.
    opens: bool,
    state: Arc<State>,
}

/// Shared with the callers who look at it, and copied for a change, which is rare.
type State = Mutex<Arc<Open>>;
/// Why each node is open that is; no node for the one Redis.
type Open = BTreeMap<Node, Arc<Error>>;
type Node = Option<String>;

/// What is known to be silent at one time, so that all writes of a call follow the same.
pub(crate) struct Outages<'c> {
    nodes: &'c Nodes,
    open: Arc<Open>,
}

/// Closes a circuit, also if the probes end with their runtime: the next write then finds out.
struct Closing(Weak<State>, Node);

// === impl Circuit ===

impl Circuit {
    /// `spools`: whether there is a spool to go to.
    pub(crate) fn new(calls: Calls, spools: bool) -> Self {
        Self { opens: spools || calls.nodes().only().is_none(), calls, state: Arc::default() }
    }

    /// Why nothing is sent to a shard now, while its node is known to be silent.
    pub(crate) fn outage(&self, shard: ShardId) -> Option<Error> {
        self.outages().of(shard).map(|outage| Error::clone(outage))
    }

    /// What is known to be silent now.
    pub(crate) fn outages(&self) -> Outages<'_> {
        Outages { nodes: self.calls.nodes(), open: Arc::clone(&lock(&self.state)) }
    }

    /// Opens the circuit of a shard's node if a write to it ended without an answer.
    pub(crate) fn note(&self, shard: ShardId, error: &Error) {
        if self.opens && error.is_silence() && !is_own(error) {
            let node = self.calls.nodes().label(shard);
            if self.open(&node, error) {
                tracing::warn!(%error, "Redis is silent: nothing is sent to it until it answers a probe");
                tokio::spawn(probe(self.calls.clone(), shard, Closing(Arc::downgrade(&self.state), node)));
            }
        }
    }

    /// Whether it was closed before.
    fn open(&self, node: &Node, error: &Error) -> bool {
        let mut state = lock(&self.state);
        if state.contains_key(node) {
            return false;
        }
        let address = node.clone().unwrap_or_else(|| self.calls.nodes().address());
        let why = format!("{NOT_SENT}; before: {error}");
        Arc::make_mut(&mut state).insert(node.clone(), Arc::new(Error::Unreachable { address, why }));
        true
    }
}

/// Whether an error is of a circuit: it may have closed since.
fn is_own(error: &Error) -> bool {
    matches!(error, Error::Unreachable { why, .. } if why.starts_with(NOT_SENT))
}

/// Probes by a shard until its node gives any answer, or the producer has ended.
async fn probe(calls: Calls, shard: ShardId, closing: Closing) {
    while closing.0.strong_count() > 0 {
        match server::redis_time(&calls, shard).await {
            Err(error) if error.is_silence() => tokio::time::sleep(REST).await,
            _ => return tracing::info!("Redis answers again"),
        }
    }
}

fn lock(state: &State) -> MutexGuard<'_, Arc<Open>> {
    state.lock().expect("nothing panics while it holds the state")
}

// === impl Outages ===

impl Outages<'_> {
    /// Why nothing is sent to a shard, if its node is silent.
    pub(crate) fn of(&self, shard: ShardId) -> Option<&Arc<Error>> {
        if self.is_none() { None } else { self.open.get(&self.nodes.label(shard)) }
    }

    /// Whether no node is.
    pub(crate) fn is_none(&self) -> bool {
        self.open.is_empty()
    }
}

// === impl Closing ===

impl Drop for Closing {
    fn drop(&mut self) {
        if let Some(state) = self.0.upgrade() {
            Arc::make_mut(&mut lock(&state)).remove(&self.1);
        }
    }
}
