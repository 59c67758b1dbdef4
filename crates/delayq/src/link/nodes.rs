//! The connections of one client to all nodes of its deployment, and which of them has which shard: the one Redis all of
//! them, each of several Redises those that a fixed map says, each master of a cluster those whose slots it has.

use super::Link;
use super::board::View;
use super::cluster::Cluster;
use super::cluster_links::ClusterLinks;
use super::cluster_url::ClusterUrl;
use super::grouped::Grouped;
use super::node::Node;
use super::node_map::NodeMap;
use super::sentinels::SentinelReport;
use super::settings::LinkSettings;
use crate::error::Error;
use delayq_core::id::NodeName;
use delayq_core::keys::Keys;
use delayq_core::shard::ShardId;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// The connections of one client.
pub(crate) struct Nodes {
    keys: Keys,
    place: Place,
}

enum Place {
    /// One Redis, wherever it is.
    One(Arc<Link>),
    /// Several, in the order of the map.
    Several(NodeMap, Vec<Arc<Link>>),
    Cluster(ClusterLinks),
}

// === impl Nodes ===

impl Nodes {
    /// Connects on first use: to the nodes of the map if there is one.
    pub(crate) fn new(settings: LinkSettings, map: Option<NodeMap>, keys: Keys) -> Self {
        let place = match (map, settings.url.parse()) {
            (Some(map), _) => Place::several(map),
            (None, Ok(url)) if ClusterUrl::is_meant_by(&settings.url) => {
                Place::Cluster(ClusterLinks::new(Arc::new(Cluster::new(url, settings))))
            }
            // One that cannot be read is named by the link.
            _ => Place::One(Arc::new(Link::new(settings))),
        };
        Self { keys, place }
    }

    /// Other connections to the same nodes.
    pub(crate) fn another(&self) -> Self {
        let place = match &self.place {
            Place::One(link) => Place::One(Arc::new(link.another())),
            Place::Several(map, links) => {
                Place::Several(map.clone(), links.iter().map(|link| Arc::new(link.another())).collect())
            }
            Place::Cluster(links) => Place::Cluster(links.another()),
        };
        Self { keys: self.keys.clone(), place }
    }

    pub(crate) fn keys(&self) -> &Keys {
        &self.keys
    }

    /// How to connect; of several Redises, to the first.
    pub(crate) fn settings(&self) -> &LinkSettings {
        match &self.place {
            Place::One(link) => link.settings(),
            Place::Several(_, links) => links[0].settings(),
            Place::Cluster(links) => links.board().settings(),
        }
    }

    /// Where the deployment is, without secrets.
    pub(crate) fn address(&self) -> String {
        match &self.place {
            Place::Several(_, links) => {
                links.iter().map(|link| link.address()).collect::<Vec<_>>().join(", ")
            }
            Place::One(_) | Place::Cluster(_) => self.settings().address(),
        }
    }

    /// Whether it is a cluster.
    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self.place, Place::Cluster(_))
    }

    /// The connection to the one Redis that there is; `None`: there are several, or a cluster.
    pub(crate) fn only(&self) -> Option<&Arc<Link>> {
        match &self.place {
            Place::One(link) => Some(link),
            Place::Several(..) | Place::Cluster(_) => None,
        }
    }

    /// The map of several Redises; `None`: there is one, or a cluster.
    pub(crate) fn map(&self) -> Option<&NodeMap> {
        match &self.place {
            Place::Several(map, _) => Some(map),
            Place::One(_) | Place::Cluster(_) => None,
        }
    }

    /// Whether a node may have a shard: a fixed map may be from before a growth.
    pub(crate) fn has_node(&self, shard: ShardId) -> bool {
        self.map().is_none_or(|map| map.home(shard).is_some())
    }

    /// The name of the node that has a shard, among several Redises; `None`: there are none, or none of them has it.
    pub(crate) fn name(&self, shard: ShardId) -> Option<&NodeName> {
        self.map()?.node(shard).map(|node| &node.name)
    }

    /// What tells the node that has a shard from the others, as far as is known: its name, or its address. `None`: there is
    /// one Redis, or none is known to have it.
    pub(crate) fn label(&self, shard: ShardId) -> Option<String> {
        match &self.place {
            Place::One(_) => None,
            Place::Several(..) => self.name(shard).map(ToString::to_string),
            Place::Cluster(links) => {
                let map = links.board().views().borrow().map.clone();
                map.and_then(|map| map.node(self.keys.slot(shard)).map(ToString::to_string))
            }
        }
    }

    /// The connection to the node that has a shard.
    ///
    /// # Errors
    /// No node is known to have it: nothing was sent.
    pub(crate) async fn of_shard(&self, shard: ShardId) -> Result<Arc<Link>, Error> {
        let Grouped { nodes, nowhere } = self.group(&[shard], self.settings().deadline).await;
        let nowhere = nowhere.into_iter().next().map(|(_, error)| error);
        let node = nodes.into_iter().next().map(|(link, _)| link);
        node.ok_or_else(|| nowhere.expect("a shard is at a node or nowhere"))
    }

    /// Groups shards by the nodes that have them; where that is not known yet, a cluster is waited for no longer than
    /// `within`.
    pub(crate) async fn group(&self, shards: &[ShardId], within: Duration) -> Grouped {
        match &self.place {
            _ if shards.is_empty() => Grouped::default(),
            Place::One(link) => {
                let all = (0..shards.len()).collect();
                Grouped { nodes: vec![(Arc::clone(link), all)], nowhere: Vec::new() }
            }
            Place::Several(map, links) => by_map(map, links, shards),
            Place::Cluster(links) => {
                let slots: Vec<u16> = shards.iter().map(|&shard| self.keys.slot(shard)).collect();
                links.group(&slots, within).await
            }
        }
    }

    /// The connections to all nodes: of a cluster, to those that have a slot, by their addresses.
    ///
    /// # Errors
    /// No node says which there are.
    pub(crate) async fn all(&self) -> Result<Vec<Arc<Link>>, Error> {
        match &self.place {
            Place::One(link) => Ok(vec![Arc::clone(link)]),
            Place::Several(_, links) => Ok(links.clone()),
            Place::Cluster(links) => links.all().await,
        }
    }

    /// Where `from` redirects a call to; `None`: that cannot be read, or is `from` itself.
    pub(crate) fn redirected(from: &Link, to: &str) -> Option<Node> {
        let from = Node::parse(from.address(), 0)?;
        from.redirected(to).filter(|to| *to != from)
    }

    /// Nodes of a cluster said that these slots are elsewhere now.
    pub(crate) fn moved(&self, slots: &[(u16, Node)]) {
        if let Place::Cluster(links) = &self.place {
            links.board().moved(slots);
        }
    }

    /// Follows who has which slot; `None`: it is no cluster.
    pub(crate) fn views(&self) -> Option<watch::Receiver<View>> {
        match &self.place {
            Place::Cluster(links) => Some(links.board().views()),
            Place::One(_) | Place::Several(..) => None,
        }
    }

    /// What each sentinel of the Redis says now; `None`: it is named by none.
    pub(crate) async fn sentinels(&self) -> Option<Vec<SentinelReport>> {
        self.only()?.sentinels().await
    }
}

fn by_map(map: &NodeMap, links: &[Arc<Link>], shards: &[ShardId]) -> Grouped {
    let (mut nodes, mut nowhere) = (BTreeMap::<usize, Vec<usize>>::new(), Vec::new());
    for (i, &shard) in shards.iter().enumerate() {
        match map.home(shard) {
            Some(node) => nodes.entry(node).or_default().push(i),
            None => {
                let why = format!(
                    "shard {shard} has no node, and those that are configured have {} shards: add its node to \
                     [[redis.nodes]]",
                    map.shards()
                );
                nowhere.push((i, Error::Deployment(why)));
            }
        }
    }
    let nodes = nodes.into_iter().map(|(node, which)| (Arc::clone(&links[node]), which));
    Grouped { nodes: nodes.collect(), nowhere }
}

// === impl Place ===

impl Place {
    fn several(map: NodeMap) -> Self {
        let links = map.nodes().iter().map(|node| Arc::new(Link::named(node))).collect();
        Self::Several(map, links)
    }
}
