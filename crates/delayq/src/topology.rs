//! The connections of one client to all nodes of a deployment, and the node of each shard. One Redis has all shards.
//! Among several Redises, the configured map gives each shard a node, until a shard records another node. In a cluster,
//! each master has the shards in the master's slots.

mod cluster;
mod grouped;
mod homes;
mod lesson;
mod node_map;
mod wrong_node;

pub(crate) use grouped::Grouped;
pub(crate) use lesson::Lesson;
pub(crate) use wrong_node::{check as check_node, elsewhere, moving};

pub use node_map::{NodeMap, NodeMapError, NodeSettings};

use crate::error::Error;
use crate::link::{ClusterUrl, Link, LinkSettings, Marks, Node, SentinelReport};
use cluster::{Cluster, ClusterLinks, View};
use delayq_core::id::NodeName;
use delayq_core::keys::Keys;
use delayq_core::shard::ShardId;
use futures_util::future::join_all;
use homes::{Homes, Told};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

pub(crate) struct Nodes {
    keys: Keys,
    shape: RedisShape,
}

#[derive(Clone)]
pub(crate) enum PlacesVersion {
    Several(watch::Receiver<Told>),
    Cluster(watch::Receiver<View>),
}

enum RedisShape {
    One(Arc<Link>),
    /// In the order of the map.
    Several(Homes, Vec<Arc<Link>>),
    Cluster(ClusterLinks),
}

// === impl Nodes ===

impl Nodes {
    /// Connects on first use.
    pub(crate) fn new(settings: LinkSettings, map: Option<NodeMap>, keys: Keys) -> Self {
        let shape = match (map, settings.url.parse()) {
            (Some(map), _) => RedisShape::several(map, &keys),
            (None, Ok(url)) if ClusterUrl::is_meant_by(&settings.url) => {
                RedisShape::Cluster(ClusterLinks::new(Arc::new(Cluster::new(url, settings))))
            }
            // The link reports a URL that cannot be read.
            _ => {
                let first = std::iter::once(ShardId::new(0));
                RedisShape::One(Arc::new(Link::marked(settings, Marks::of(&keys, first))))
            }
        };
        Self { keys, shape }
    }

    pub(crate) fn another(&self) -> Self {
        let shape = match &self.shape {
            RedisShape::One(link) => RedisShape::One(Arc::new(link.another())),
            RedisShape::Several(homes, links) => RedisShape::Several(
                homes.clone(),
                links.iter().map(|link| Arc::new(link.another())).collect(),
            ),
            RedisShape::Cluster(links) => RedisShape::Cluster(links.another()),
        };
        Self { keys: self.keys.clone(), shape }
    }

    pub(crate) fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Among several Redises, the settings of the first.
    pub(crate) fn settings(&self) -> &LinkSettings {
        match &self.shape {
            RedisShape::One(link) => link.settings(),
            RedisShape::Several(_, links) => links[0].settings(),
            RedisShape::Cluster(links) => links.slots().settings(),
        }
    }

    pub(crate) fn address(&self) -> String {
        match &self.shape {
            RedisShape::Several(_, links) => {
                links.iter().map(|link| link.address()).collect::<Vec<_>>().join(", ")
            }
            RedisShape::One(_) | RedisShape::Cluster(_) => self.settings().address(),
        }
    }

    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self.shape, RedisShape::Cluster(_))
    }

    pub(crate) fn only(&self) -> Option<&Arc<Link>> {
        match &self.shape {
            RedisShape::One(link) => Some(link),
            RedisShape::Several(..) | RedisShape::Cluster(_) => None,
        }
    }

    /// `None` for one Redis or a cluster.
    pub(crate) fn map(&self) -> Option<&NodeMap> {
        match &self.shape {
            RedisShape::Several(homes, _) => Some(homes.map()),
            RedisShape::One(_) | RedisShape::Cluster(_) => None,
        }
    }

    /// The map may be older than a growth.
    pub(crate) fn has_node(&self, shard: ShardId) -> bool {
        match &self.shape {
            RedisShape::Several(homes, _) => homes.home(shard).is_some(),
            RedisShape::One(_) | RedisShape::Cluster(_) => true,
        }
    }

    /// `None` if the node is unknown, or for one Redis or a cluster.
    pub(crate) fn name(&self, shard: ShardId) -> Option<&NodeName> {
        match &self.shape {
            RedisShape::Several(homes, _) => homes.home(shard).map(|node| &homes.map().nodes()[node].name),
            RedisShape::One(_) | RedisShape::Cluster(_) => None,
        }
    }

    /// True if the node exists.
    pub(crate) fn learn(&self, shard: ShardId, node: &NodeName) -> bool {
        match &self.shape {
            RedisShape::Several(homes, _) => homes.learn(shard, node),
            RedisShape::One(_) | RedisShape::Cluster(_) => false,
        }
    }

    pub(crate) fn named(&self, node: &NodeName) -> Option<&Arc<Link>> {
        match &self.shape {
            RedisShape::Several(_, links) => links.iter().find(|link| link.name() == Some(node)),
            RedisShape::One(_) | RedisShape::Cluster(_) => None,
        }
    }

    /// The name, or the address. `None` for one Redis, or if no node is known to have the shard.
    pub(crate) fn label(&self, shard: ShardId) -> Option<String> {
        match &self.shape {
            RedisShape::One(_) => None,
            RedisShape::Several(..) => self.name(shard).map(ToString::to_string),
            RedisShape::Cluster(links) => {
                let map = links.slots().views().borrow().map.clone();
                map.and_then(|map| map.node(self.keys.slot(shard)).map(ToString::to_string))
            }
        }
    }

    pub(crate) async fn of_shard(&self, shard: ShardId) -> Result<Arc<Link>, Error> {
        let Grouped { nodes, nowhere } = self.group(&[shard], self.settings().deadline).await;
        let nowhere = nowhere.into_iter().next().map(|(_, error)| error);
        let node = nodes.into_iter().next().map(|(link, _)| link);
        node.ok_or_else(|| nowhere.expect("a shard has one node or none"))
    }

    /// An unknown slot map is awaited for at most `within`.
    pub(crate) async fn group(&self, shards: &[ShardId], within: Duration) -> Grouped {
        match &self.shape {
            _ if shards.is_empty() => Grouped::default(),
            RedisShape::One(link) => {
                let all = (0..shards.len()).collect();
                Grouped { nodes: vec![(Arc::clone(link), all)], nowhere: Vec::new() }
            }
            RedisShape::Several(homes, links) => by_home(homes, links, shards),
            RedisShape::Cluster(links) => {
                let slots: Vec<u16> = shards.iter().map(|&shard| self.keys.slot(shard)).collect();
                links.group(&slots, within).await
            }
        }
    }

    /// In a cluster, the masters with slots, sorted by address.
    pub(crate) async fn all(&self) -> Result<Vec<Arc<Link>>, Error> {
        match &self.shape {
            RedisShape::One(link) => Ok(vec![Arc::clone(link)]),
            RedisShape::Several(_, links) => Ok(links.clone()),
            RedisShape::Cluster(links) => links.all().await,
        }
    }

    fn moved(&self, slots: &[(u16, Node)]) {
        if let RedisShape::Cluster(links) = &self.shape {
            links.slots().moved(slots);
        }
    }

    /// `None` for one Redis.
    pub(crate) fn places_version(&self) -> Option<PlacesVersion> {
        match &self.shape {
            RedisShape::One(_) => None,
            RedisShape::Several(homes, _) => Some(PlacesVersion::Several(homes.told())),
            RedisShape::Cluster(links) => Some(PlacesVersion::Cluster(links.slots().views())),
        }
    }

    /// By address of the Redis. Cluster nodes have no sentinels.
    pub(crate) async fn sentinels(&self) -> Vec<(String, Vec<SentinelReport>)> {
        let links = if self.is_cluster() { Vec::new() } else { self.all().await.unwrap_or_default() };
        let report =
            |link: Arc<Link>| async move { Some((link.address().to_owned(), link.sentinels().await?)) };
        join_all(links.into_iter().map(report)).await.into_iter().flatten().collect()
    }
}

fn by_home(homes: &Homes, links: &[Arc<Link>], shards: &[ShardId]) -> Grouped {
    let (mut nodes, mut nowhere) = (BTreeMap::<usize, Vec<usize>>::new(), Vec::new());
    for (i, &shard) in shards.iter().enumerate() {
        match homes.home(shard) {
            Some(node) => nodes.entry(node).or_default().push(i),
            None => {
                let why = format!(
                    "shard {shard} has no node: the configured nodes have {} shards; add the missing node to \
                     [[redis.nodes]]",
                    homes.map().shards()
                );
                nowhere.push((i, Error::Deployment(why)));
            }
        }
    }
    let nodes = nodes.into_iter().map(|(node, which)| (Arc::clone(&links[node]), which));
    Grouped { nodes: nodes.collect(), nowhere }
}

// === impl RedisShape ===

impl RedisShape {
    fn several(map: NodeMap, keys: &Keys) -> Self {
        let link = |node: &NodeSettings| {
            let marks = Marks::of(keys, node.shards.shards());
            Arc::new(Link::named(&node.name, node.link.clone(), marks))
        };
        let links = map.nodes().iter().map(link).collect();
        Self::Several(Homes::new(map), links)
    }
}

// === impl PlacesVersion ===

impl PlacesVersion {
    /// Increases whenever a shard may have moved.
    pub(crate) fn get(&self) -> u64 {
        match self {
            Self::Several(told) => told.borrow().version,
            Self::Cluster(views) => views.borrow().version,
        }
    }

    /// `None` after the client is dropped. Cancel safe.
    pub(crate) async fn other_than(&mut self, version: u64) -> Option<u64> {
        Some(match self {
            Self::Several(told) => told.wait_for(|told| told.version != version).await.ok()?.version,
            Self::Cluster(views) => views.wait_for(|view| view.version != version).await.ok()?.version,
        })
    }
}
