//! The connections of one client to the masters of a Redis Cluster.

use super::Cluster;
use super::known_slots::KnownSlots;
use crate::error::Error;
use crate::link::{Link, Node};
use crate::topology::grouped::Grouped;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::timeout;

/// Each connection is made on first use.
pub(crate) struct ClusterLinks {
    cluster: Arc<Cluster>,
    links: Mutex<BTreeMap<Node, Arc<Link>>>,
}

// === impl ClusterLinks ===

impl ClusterLinks {
    pub(crate) fn new(cluster: Arc<Cluster>) -> Self {
        Self { cluster, links: Mutex::default() }
    }

    pub(crate) fn another(&self) -> Self {
        Self::new(Arc::clone(&self.cluster))
    }

    pub(crate) fn slots(&self) -> &Arc<KnownSlots> {
        self.cluster.slots()
    }

    /// If the map is unknown, the cluster is asked once for all slots, for at most `within`.
    pub(crate) async fn group(&self, slots: &[u16], within: Duration) -> Grouped {
        let late = |_| {
            let why = format!("no node gave the slots within {within:?}");
            Err(Error::Unreachable { address: self.slots().settings().address(), why })
        };
        let map = match timeout(within, Box::pin(self.cluster.map())).await.unwrap_or_else(late) {
            Ok(map) => map,
            Err(error) => {
                let nowhere = (0..slots.len()).map(|i| (i, error.clone())).collect();
                return Grouped { nodes: Vec::new(), nowhere };
            }
        };
        let (mut nodes, mut nowhere) = (BTreeMap::<&Node, Vec<usize>>::new(), Vec::new());
        for (i, &slot) in slots.iter().enumerate() {
            match map.node(slot) {
                Some(node) => nodes.entry(node).or_default().push(i),
                None => nowhere.push((i, self.nobodys(slot))),
            }
        }
        Grouped { nodes: nodes.into_iter().map(|(node, which)| (self.link(node), which)).collect(), nowhere }
    }

    fn nobodys(&self, slot: u16) -> Error {
        self.slots().doubt();
        let detail = format!("no node of {} has slot {slot}", self.slots().settings().address());
        Error::Redis { code: "CLUSTERDOWN".to_owned(), detail }
    }

    /// Sorted by address.
    pub(crate) async fn all(&self) -> Result<Vec<Arc<Link>>, Error> {
        Ok(Box::pin(self.cluster.map()).await?.masters().iter().map(|node| self.link(node)).collect())
    }

    /// A new connection drops the connections to nodes that are gone.
    fn link(&self, node: &Node) -> Arc<Link> {
        let mut links = self.links.lock().expect("no code panics while holding the lock");
        if let Some(link) = links.get(node) {
            return Arc::clone(link);
        }
        let view = self.slots().views().borrow().clone();
        links.retain(|node, _| view.map.as_ref().is_none_or(|map| map.masters().contains(node)));
        let link = Arc::new(self.slots().link(node, true));
        links.insert(node.clone(), Arc::clone(&link));
        link
    }
}
