//! The connections of one client to all nodes of its Redis: one, or as many as a cluster has masters.

use super::Link;
use super::board::{Board, View};
use super::cluster::Cluster;
use super::cluster_url::ClusterUrl;
use super::node::Node;
use super::sentinels::SentinelReport;
use super::settings::LinkSettings;
use super::slot_map::SlotMap;
use crate::error::Error;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokio::sync::watch;

/// The connections of one client.
pub(crate) struct Nodes(Place);

enum Place {
    /// One Redis, wherever it is.
    One(Arc<Link>),
    Cluster {
        cluster: Arc<Cluster>,
        links: Mutex<BTreeMap<Node, Arc<Link>>>,
    },
}

// === impl Nodes ===

impl Nodes {
    /// Connects on first use.
    pub(crate) fn new(settings: LinkSettings) -> Self {
        // One that cannot be read is named by the link.
        match settings.url.parse() {
            Ok(url) if ClusterUrl::is_meant_by(&settings.url) => {
                Self::of(Arc::new(Cluster::new(url, settings)))
            }
            _ => Self(Place::One(Arc::new(Link::new(settings)))),
        }
    }

    fn of(cluster: Arc<Cluster>) -> Self {
        Self(Place::Cluster { cluster, links: Mutex::default() })
    }

    /// Other connections to the same nodes.
    pub(crate) fn another(&self) -> Self {
        match &self.0 {
            Place::One(link) => Self(Place::One(Arc::new(link.another()))),
            Place::Cluster { cluster, .. } => Self::of(Arc::clone(cluster)),
        }
    }

    pub(crate) fn settings(&self) -> &LinkSettings {
        match &self.0 {
            Place::One(link) => link.settings(),
            Place::Cluster { cluster, .. } => cluster.board().settings(),
        }
    }

    /// Where the deployment is, without secrets.
    pub(crate) fn address(&self) -> String {
        self.settings().address()
    }

    /// Whether it is a cluster.
    pub(crate) fn is_cluster(&self) -> bool {
        self.board().is_some()
    }

    /// The connection to the one Redis that there is; `None`: it is a cluster.
    pub(crate) fn only(&self) -> Option<&Arc<Link>> {
        match &self.0 {
            Place::One(link) => Some(link),
            Place::Cluster { .. } => None,
        }
    }

    /// The connection to the node that has a slot.
    ///
    /// # Errors
    /// No node says which one that is, or none has it: nothing was sent.
    pub(crate) async fn of_slot(&self, slot: u16) -> Result<Arc<Link>, Error> {
        match &self.0 {
            Place::One(link) => Ok(Arc::clone(link)),
            Place::Cluster { cluster, .. } => self.in_map(&*Box::pin(cluster.map()).await?, slot),
        }
    }

    fn in_map(&self, map: &SlotMap, slot: u16) -> Result<Arc<Link>, Error> {
        match map.node(slot) {
            Some(node) => Ok(self.link(node)),
            None => {
                self.board().into_iter().for_each(|board| board.doubt());
                let detail = format!("no node of {} has slot {slot}", self.address());
                Err(Error::Redis { code: "CLUSTERDOWN".to_owned(), detail })
            }
        }
    }

    /// The connections to all nodes that have a slot, by their addresses.
    ///
    /// # Errors
    /// No node says which there are.
    pub(crate) async fn all(&self) -> Result<Vec<Arc<Link>>, Error> {
        match &self.0 {
            Place::One(link) => Ok(vec![Arc::clone(link)]),
            Place::Cluster { cluster, .. } => {
                Ok(Box::pin(cluster.map()).await?.masters().iter().map(|node| self.link(node)).collect())
            }
        }
    }

    /// A node refused a call because its slot is at `to` now.
    pub(crate) fn moved(&self, slot: u16, from: &Link, to: &str) {
        let Place::Cluster { cluster, links } = &self.0 else { return };
        let links = links.lock().expect(UNBROKEN);
        let node = links.iter().find(|(_, link)| link.address() == from.address());
        if let Some(to) = node.and_then(|(node, _)| node.redirected(to)) {
            cluster.board().moved(slot, &to);
        }
    }

    /// Follows who has which slot; `None`: it is no cluster.
    pub(crate) fn views(&self) -> Option<watch::Receiver<View>> {
        self.board().map(|board| board.views())
    }

    /// What each sentinel of the Redis says now; `None`: it is named by none.
    pub(crate) async fn sentinels(&self) -> Option<Vec<SentinelReport>> {
        self.only()?.sentinels().await
    }

    fn board(&self) -> Option<&Arc<Board>> {
        match &self.0 {
            Place::One(_) => None,
            Place::Cluster { cluster, .. } => Some(cluster.board()),
        }
    }

    /// The connection to a node. Those to nodes that are gone are dropped when another one comes.
    pub(crate) fn link(&self, node: &Node) -> Arc<Link> {
        match &self.0 {
            Place::One(link) => Arc::clone(link),
            Place::Cluster { cluster, links } => {
                let mut links = links.lock().expect(UNBROKEN);
                if let Some(link) = links.get(node) {
                    return Arc::clone(link);
                }
                let board = cluster.board();
                let view = board.views().borrow().clone();
                links.retain(|node, _| view.map.as_ref().is_none_or(|map| map.masters().contains(node)));
                let link = Arc::new(Link::of_node(board, node, true));
                links.insert(node.clone(), Arc::clone(&link));
                link
            }
        }
    }
}

const UNBROKEN: &str = "nothing panics while it holds the connections";
