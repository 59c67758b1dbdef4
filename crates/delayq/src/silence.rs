//! Known silent nodes. A producer does not wait for the deadlines of a silent node, and messages with generated ids go
//! to other nodes.
//!
//! ```text
//! answering ── a write ends without an answer ──► silent: writes fail or are spooled ── a probe is answered ──► answering
//! ```
//! Each node is watched separately: a silent node proves nothing about other nodes. The probes are sent in the
//! background, so no caller waits for a probe.

use crate::calls::Calls;
use crate::error::Error;
use crate::server;
use crate::topology::Nodes;
use delayq_core::shard::ShardId;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

/// The pause between two probes, and so the maximum time that writes still go to the spool after Redis answers again.
const REST: Duration = Duration::from_millis(100);

const NOT_SENT: &str = "nothing was sent, because Redis is silent";

/// The silent nodes of a producer. Cheap to clone: all clones share the same nodes.
#[derive(Clone)]
pub(crate) struct Silence {
    calls: Calls,
    /// True if there is an alternative to waiting: a spool, or another node.
    spares_waits: bool,
    state: Arc<SharedErrors>,
}

/// Shared with readers, and copied for each change; changes are rare.
type SharedErrors = Mutex<Arc<SilentNodes>>;
type SilentNodes = BTreeMap<NodeKey, Arc<Error>>;
type NodeKey = Option<String>;

/// All writes of a call see the same state.
pub(crate) struct Outages<'c> {
    nodes: &'c Nodes,
    silent: Arc<SilentNodes>,
}

/// Ends a silence when dropped, even if the probe ends with its runtime: the next write then finds out.
struct Ending(Weak<SharedErrors>, NodeKey);

// === impl Silence ===

impl Silence {
    pub(crate) fn new(calls: Calls, spools: bool) -> Self {
        Self { spares_waits: spools || calls.nodes().only().is_none(), calls, state: Arc::default() }
    }

    pub(crate) fn outage(&self, shard: ShardId) -> Option<Error> {
        self.outages().of(shard).map(|outage| Error::clone(outage))
    }

    pub(crate) fn outages(&self) -> Outages<'_> {
        Outages { nodes: self.calls.nodes(), silent: Arc::clone(&lock(&self.state)) }
    }

    /// Records a shard's node as silent if a write ended there without an answer.
    pub(crate) fn note(&self, shard: ShardId, error: &Error) {
        if self.spares_waits && error.is_silence() && !is_own(error) {
            let node = self.calls.nodes().label(shard);
            if self.begin(&node, error) {
                tracing::warn!(%error, "Redis is silent: no calls until it answers a probe");
                tokio::spawn(probe(self.calls.clone(), shard, Ending(Arc::downgrade(&self.state), node)));
            }
        }
    }

    /// True if the node was not silent before.
    fn begin(&self, node: &NodeKey, error: &Error) -> bool {
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

/// Returns true for an error that was made here: the node may have answered since.
fn is_own(error: &Error) -> bool {
    matches!(error, Error::Unreachable { why, .. } if why.starts_with(NOT_SENT))
}

/// Probes through a shard until its node gives any answer, or the producer has ended.
async fn probe(calls: Calls, shard: ShardId, ending: Ending) {
    while ending.0.strong_count() > 0 {
        match server::redis_time(&calls, shard).await {
            Err(error) if error.is_silence() => tokio::time::sleep(REST).await,
            _ => return tracing::info!("Redis answers again"),
        }
    }
}

fn lock(state: &SharedErrors) -> MutexGuard<'_, Arc<SilentNodes>> {
    state.lock().expect("no code panics while holding the lock")
}

// === impl Outages ===

impl Outages<'_> {
    pub(crate) fn of(&self, shard: ShardId) -> Option<&Arc<Error>> {
        if self.is_none() { None } else { self.silent.get(&self.nodes.label(shard)) }
    }

    pub(crate) fn is_none(&self) -> bool {
        self.silent.is_empty()
    }
}

// === impl Ending ===

impl Drop for Ending {
    fn drop(&mut self) {
        if let Some(state) = self.0.upgrade() {
            Arc::make_mut(&mut lock(&state)).remove(&self.1);
        }
    }
}
