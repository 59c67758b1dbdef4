//! Nodes that have lost shards, such as a node that came back empty: messages with generated ids go to other nodes
//! until all shards of the node are back.
//!
//! A message with an own id or a group that belongs to a lost shard is still sent there, and refused by name: only such
//! a call shows when the shard is back, and the caller has to know.

use crate::calls::Calls;
use crate::error::Error;
use delayq_core::layout::NOT_ASKED;
use delayq_core::shard::ShardId;
use delayq_core::verbs::deployment::{self, Asked};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

/// The pause between two questions, and so the maximum time that generated ids avoid a node after its shards are back.
const REST: Duration = Duration::from_millis(500);

/// Nodes that lost shards, as met by a producer. Clones share the state.
#[derive(Clone)]
pub(crate) struct Emptied {
    calls: Calls,
    state: Arc<SharedNames>,
}

/// Shared with readers, and copied for each change; changes are rare.
type SharedNames = Mutex<Arc<BTreeSet<String>>>;

/// Forgets a node when dropped, even if the questions end with their runtime: the next put finds out.
struct Forgetting(Weak<SharedNames>, String);

// === impl Emptied ===

impl Emptied {
    pub(crate) fn new(calls: Calls) -> Self {
        Self { calls, state: Arc::default() }
    }

    /// An only Redis is not noted, because there is no alternative.
    pub(crate) fn note(&self, shard: ShardId, error: &Error) {
        if !matches!(error, Error::Uninitialised(_)) {
            return;
        }
        let Some(node) = self.calls.nodes().label(shard) else { return };
        let is_new = Arc::make_mut(&mut lock(&self.state)).insert(node.clone());
        if is_new {
            tracing::warn!(%node, %error, "a Redis node has lost shards: generated ids avoid them until they \
                                           are back");
            tokio::spawn(ask(self.calls.clone(), Forgetting(Arc::downgrade(&self.state), node)));
        }
    }

    pub(crate) fn has(&self, shard: ShardId) -> bool {
        let nodes = Arc::clone(&lock(&self.state));
        !nodes.is_empty() && self.calls.nodes().label(shard).is_some_and(|node| nodes.contains(&node))
    }
}

/// Ends when all shards are there or elsewhere, or the producer has ended.
async fn ask(calls: Calls, of: Forgetting) {
    let is_missing = |shard, reply: Result<_, Error>| match reply {
        Ok(reply) => matches!(deployment::read_asked(reply, shard), Ok(Asked::Missing)),
        // An outage says nothing about the shard.
        Err(error) => error.is_outage(),
    };
    while of.0.strong_count() > 0 {
        tokio::time::sleep(REST).await;
        let is_there = |shard: &ShardId| calls.nodes().label(*shard).as_ref() == Some(&of.1);
        let shards: Vec<ShardId> = calls.shards().shards().filter(is_there).collect();
        let asking = shards.iter().map(|&shard| deployment::ask(shard).under(NOT_ASKED)).collect();
        let replies = calls.send_plain(asking).await;
        if !shards.into_iter().zip(replies).any(|(shard, reply)| is_missing(shard, reply)) {
            return tracing::info!(node = of.1, "a Redis node has its shards again");
        }
    }
}

fn lock(state: &SharedNames) -> MutexGuard<'_, Arc<BTreeSet<String>>> {
    state.lock().expect("no code panics while holding the lock")
}

// === impl Forgetting ===

impl Drop for Forgetting {
    fn drop(&mut self) {
        if let Some(state) = self.0.upgrade() {
            Arc::make_mut(&mut lock(&state)).remove(&self.1);
        }
    }
}
