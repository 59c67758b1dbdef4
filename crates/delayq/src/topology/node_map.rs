//! Several Redises that keep a deployment together, and the node of each shard. Pure.

use crate::link::{ClusterUrl, LinkSettings};
use delayq_core::id::NodeName;
use delayq_core::ranges::ShardRanges;
use delayq_core::shard::ShardId;
use std::sync::Arc;

/// A Redis among several, with a part of the shards.
#[derive(Clone, Debug)]
pub struct NodeSettings {
    /// The node's name, recorded in each shard of the node.
    pub name: NodeName,
    /// The node's shards, including the shards of a planned growth.
    pub shards: ShardRanges,
    /// The node's address: one Redis, with or without sentinels.
    pub link: LinkSettings,
}

/// Several Redises; each shard has one node. Cheap to clone.
#[derive(Clone, Debug)]
pub struct NodeMap {
    nodes: Arc<[NodeSettings]>,
    /// Indices into `nodes`, from shard 0.
    homes: Arc<[u16]>,
}

/// The reason why the nodes cannot keep a deployment together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeMapError {
    /// There is no node.
    #[error("no node is given")]
    Empty,
    /// Two nodes have the same name.
    #[error("two nodes have the name {0}")]
    SameName(NodeName),
    /// Two nodes have the same address.
    #[error("the nodes {0} and {1} have the same URL")]
    SameUrl(NodeName, NodeName),
    /// The address of a node is that of a Redis Cluster.
    #[error("node {0} is a Redis Cluster, which distributes shards itself: configure it as redis.url")]
    Cluster(NodeName),
    /// A shard has no node, but a later shard has.
    #[error("shard {0} has no node")]
    Gap(ShardId),
    /// A shard has two nodes.
    #[error("shard {0} has two nodes: {1} and {2}")]
    Overlap(ShardId, NodeName, NodeName),
}

// === impl NodeMap ===

impl NodeMap {
    /// Checks the nodes and builds the map.
    ///
    /// # Errors
    /// A shard has two nodes or none, or two nodes have the same name or address.
    pub fn new(nodes: Vec<NodeSettings>) -> Result<Self, NodeMapError> {
        if nodes.is_empty() {
            return Err(NodeMapError::Empty);
        }
        for (i, node) in nodes.iter().enumerate() {
            if ClusterUrl::is_meant_by(&node.link.url) {
                return Err(NodeMapError::Cluster(node.name.clone()));
            }
            for other in &nodes[..i] {
                if other.name == node.name {
                    return Err(NodeMapError::SameName(node.name.clone()));
                }
                if other.link.address() == node.link.address() {
                    return Err(NodeMapError::SameUrl(other.name.clone(), node.name.clone()));
                }
            }
        }
        Ok(Self { homes: homes(&nodes)?.into(), nodes: nodes.into() })
    }

    /// The nodes.
    pub fn nodes(&self) -> &[NodeSettings] {
        &self.nodes
    }

    /// Number of shards with a node: all shards from 0.
    pub fn shards(&self) -> usize {
        self.homes.len()
    }

    /// The shard's node, if there is one.
    pub fn node(&self, shard: ShardId) -> Option<&NodeSettings> {
        self.home(shard).map(|node| &self.nodes[node])
    }

    /// An index.
    pub(crate) fn home(&self, shard: ShardId) -> Option<usize> {
        self.homes.get(usize::from(shard.get())).map(|&node| node.into())
    }
}

fn homes(nodes: &[NodeSettings]) -> Result<Vec<u16>, NodeMapError> {
    let mut homes: Vec<Option<u16>> = Vec::new();
    for (node, settings) in (0..).zip(nodes) {
        for shard in settings.shards.shards() {
            let at = usize::from(shard.get());
            homes.resize(homes.len().max(at + 1), None);
            if let Some(other) = homes[at].replace(node) {
                let other = nodes[usize::from(other)].name.clone();
                return Err(NodeMapError::Overlap(shard, other, settings.name.clone()));
            }
        }
    }
    let gap = |shard| NodeMapError::Gap(ShardId::new(shard));
    (0..).zip(homes).map(|(shard, home)| home.ok_or_else(|| gap(shard))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(nodes: &[(&str, &str, &str)]) -> Result<NodeMap, NodeMapError> {
        let node = |&(name, url, shards): &(&str, &str, &str)| NodeSettings {
            name: name.parse().unwrap(),
            shards: shards.parse().unwrap(),
            link: url.into(),
        };
        NodeMap::new(nodes.iter().map(node).collect())
    }

    #[test]
    fn each_shard_has_its_node() {
        let map = map(&[("a", "redis://a", "0-2,5"), ("b", "redis://b", "3-4")]).unwrap();
        let homes: Vec<Option<usize>> = (0..7).map(|shard| map.home(ShardId::new(shard))).collect();
        assert_eq!(homes, [Some(0), Some(0), Some(0), Some(1), Some(1), Some(0), None]);
        assert_eq!(map.shards(), 6);
    }

    #[test]
    fn a_wrong_map_is_refused_by_name() {
        let (a, b) = ("redis://a", "redis://b");
        for (nodes, why) in [
            (&[][..], "no node"),
            (&[("a", a, "0-1"), ("a", b, "2-3")], "have the name a"),
            (&[("a", a, "0-1"), ("b", a, "2-3")], "a and b have the same URL"),
            (&[("a", a, "0-1"), ("b", "redis://:secret@a", "2-3")], "a and b have the same URL"),
            (&[("a", a, "0-1"), ("b", b, "3-4")], "shard 2 has no node"),
            (&[("a", a, "1-2")], "shard 0 has no node"),
            (&[("a", a, "0-3"), ("b", b, "3-4")], "shard 3 has two nodes: a and b"),
            (&[("a", a, "0-3,2")], "shard 2 has two nodes: a and a"),
            (&[("a", "redis+cluster://h:1", "0-3")], "node a is a Redis Cluster"),
        ] {
            let error = map(nodes).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
