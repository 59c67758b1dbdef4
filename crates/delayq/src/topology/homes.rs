//! The node of each shard among several Redises: the map applies until a shard records another node. Shared by all
//! connections of a client.

use super::node_map::NodeMap;
use delayq_core::id::NodeName;
use delayq_core::shard::ShardId;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::watch;

#[derive(Clone)]
pub(crate) struct Homes {
    map: NodeMap,
    told: Arc<watch::Sender<Told>>,
}

#[derive(Default)]
pub(crate) struct Told {
    pub(crate) version: u64,
    /// The nodes of shards that are missing from the map or have another node in the map.
    elsewhere: BTreeMap<ShardId, usize>,
}

// === impl Homes ===

impl Homes {
    pub(super) fn new(map: NodeMap) -> Self {
        Self { map, told: Arc::new(watch::Sender::new(Told::default())) }
    }

    pub(crate) fn map(&self) -> &NodeMap {
        &self.map
    }

    /// An index; `None` if unknown.
    pub(crate) fn home(&self, shard: ShardId) -> Option<usize> {
        let elsewhere = self.told.borrow().elsewhere.get(&shard).copied();
        elsewhere.or_else(|| self.map.home(shard))
    }

    /// True if the node exists.
    pub(super) fn learn(&self, shard: ShardId, node: &NodeName) -> bool {
        let Some(home) = self.map.nodes().iter().position(|known| known.name == *node) else { return false };
        self.told.send_if_modified(|told| {
            let before = told.elsewhere.get(&shard).copied().or_else(|| self.map.home(shard));
            if before == Some(home) {
                return false;
            }
            match self.map.home(shard) {
                Some(by_map) if by_map == home => told.elsewhere.remove(&shard),
                _ => told.elsewhere.insert(shard, home),
            };
            told.version += 1;
            let before = before.map_or("none", |before| self.map.nodes()[before].name.as_str());
            tracing::warn!(%shard, %before, %node, "a shard has moved to another node: following it");
            true
        });
        true
    }

    pub(super) fn told(&self) -> watch::Receiver<Told> {
        self.told.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::NodeSettings;
    use delayq_core::ranges::ShardRanges;

    #[test]
    fn a_shard_is_where_it_says_if_there_is_such_a_node() {
        let node = |name: &str, shards: ShardRanges| NodeSettings {
            name: name.parse().unwrap(),
            shards,
            link: format!("redis://{name}").as_str().into(),
        };
        let nodes = vec![node("a", "0-1".parse().unwrap()), node("b", ShardRanges::default())];
        let homes = Homes::new(NodeMap::new(nodes).unwrap());
        let of = |homes: &Homes| [0, 1, 2].map(|shard| homes.home(ShardId::new(shard)));
        let other = homes.clone();
        for (shard, node, known, now, version) in [
            (1, "b", true, [Some(0), Some(1), None], 1),
            (1, "b", true, [Some(0), Some(1), None], 1),
            (1, "c", false, [Some(0), Some(1), None], 1),
            (2, "b", true, [Some(0), Some(1), Some(1)], 2),
            (1, "a", true, [Some(0), Some(0), Some(1)], 3),
        ] {
            assert_eq!(homes.learn(ShardId::new(shard), &node.parse().unwrap()), known);
            assert_eq!((of(&other), other.told().borrow().version), (now, version));
        }
    }
}
