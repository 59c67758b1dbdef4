//! The Redis of each shard, as far as is known.

use crate::calls::Calls;
use crate::topology::PlacesVersion;
use delayq_core::shard::ShardId;
use std::collections::BTreeMap;

/// The Redis of each shard: the only Redis, one of several, or a node of a cluster. Each Redis has a separate clock.
/// Made by [`Owner::places`](crate::owner::Owner::places) and [`Holder::places`](crate::holder::Holder::places).
#[derive(Clone)]
pub struct Places {
    calls: Calls,
    told: u64,
    /// `None`: no shard ever moves.
    version: Option<PlacesVersion>,
}

// === impl Places ===

impl Places {
    pub(crate) fn of(calls: &Calls) -> Self {
        Self { calls: calls.clone(), told: 0, version: calls.nodes().places_version() }
    }

    /// The node of a shard: the name among several Redises, the address in a cluster. The address of the deployment if
    /// the node is unknown, or if there is only one Redis.
    pub fn node(&self, shard: ShardId) -> String {
        let nodes = self.calls.nodes();
        nodes.label(shard).unwrap_or_else(|| nodes.address())
    }

    /// Returns true if there is only one Redis, which has all shards.
    pub fn is_one(&self) -> bool {
        self.calls.nodes().only().is_some()
    }

    /// Groups items by the shards' nodes, in order.
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

    /// Increases whenever a shard may have moved.
    pub fn version(&self) -> u64 {
        self.version.as_ref().map_or(0, PlacesVersion::get)
    }

    /// Waits until a shard may have moved. Cancel safe.
    pub async fn changed(&mut self) {
        let changed = match &mut self.version {
            Some(version) => version.other_than(self.told).await,
            None => None,
        };
        match changed {
            Some(version) => self.told = version,
            // No shard moves, or the client is gone.
            None => std::future::pending().await,
        }
    }
}
