//! Which Redis has which shard, as far as is known.

use crate::calls::Calls;
use crate::link::View;
use delayq_core::shard::ShardId;
use std::collections::BTreeMap;
use tokio::sync::watch;

/// Which Redis has which shard: the one that there is, one of several by a fixed map, or a node of a cluster. Each has a
/// clock of its own. Made by [`Owner::places`](crate::owner::Owner::places) and
/// [`Holder::places`](crate::holder::Holder::places).
#[derive(Clone)]
pub struct Places {
    calls: Calls,
    /// The version that was told last.
    told: u64,
    /// `None`: no shard ever moves.
    views: Option<watch::Receiver<View>>,
}

// === impl Places ===

impl Places {
    pub(crate) fn of(calls: &Calls) -> Self {
        Self { calls: calls.clone(), told: 0, views: calls.nodes().views() }
    }

    /// The node that has a shard: its name among several Redises, its address in a cluster; where none is known to have
    /// it, and where there is one Redis, the address of the deployment.
    pub fn node(&self, shard: ShardId) -> String {
        let nodes = self.calls.nodes();
        nodes.label(shard).unwrap_or_else(|| nodes.address())
    }

    /// Whether there is one Redis, which has all shards.
    pub fn is_one(&self) -> bool {
        self.calls.nodes().only().is_some()
    }

    /// Groups what is of shards by the nodes that have them, in order.
    pub fn by_node<T>(
        &self,
        items: impl IntoIterator<Item = T>,
        shard: impl Fn(&T) -> ShardId,
    ) -> Vec<Vec<T>> {
        let mut nodes = BTreeMap::<String, Vec<T>>::new();
        for item in items {
            nodes.entry(self.node(shard(&item))).or_default().push(item);
        }
        nodes.into_values().collect()
    }

    /// Rises whenever a shard may have moved.
    pub fn version(&self) -> u64 {
        self.views.as_ref().map_or(0, |views| views.borrow().version)
    }

    /// Waits until a shard may have moved. Cancel safe.
    pub async fn changed(&mut self) {
        let told = self.told;
        let changed = async {
            let views = self.views.as_mut()?;
            Some(views.wait_for(|view| view.version != told).await.ok()?.version)
        };
        match changed.await {
            Some(version) => self.told = version,
            // No shard moves, or the client is gone.
            None => std::future::pending().await,
        }
    }
}
