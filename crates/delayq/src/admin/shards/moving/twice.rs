//! Finds shards that two nodes serve: after a move, an older copy of the former node came back. Processes of the two
//! nodes do not see each other's messages.

use super::Records;
use crate::admin::shards::ShardsAdmin;
use crate::topology::NodeMap;
use delayq_core::id::NodeName;
use delayq_core::shard::ShardId;
use std::collections::BTreeMap;

// === impl ShardsAdmin ===

impl ShardsAdmin<'_> {
    /// Returns the shards that more than one Redis serves, with these nodes. Nodes that do not answer, and unreadable
    /// shards, are left out. A single Redis, or a cluster, has no such shards.
    pub async fn kept_twice(self) -> BTreeMap<ShardId, Vec<NodeName>> {
        let map = self.admin.client.calls.nodes().map();
        let (all, mut records) = (self.all(), Records::default());
        for node in map.into_iter().flat_map(NodeMap::nodes) {
            if let Ok(link) = self.node(&node.name)
                && let Ok(of_node) = self.records_of(&link, &all).await
            {
                records.add(node.name.clone(), of_node);
            }
        }
        let keepers = |shard: ShardId| records.keepers(shard).into_iter().cloned().collect();
        let kept = all.iter().map(|&shard| (shard, keepers(shard)));
        kept.filter(|(_, keepers): &(_, Vec<_>)| keepers.len() > 1).collect()
    }
}
