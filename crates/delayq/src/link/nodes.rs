//! The connections of one client to all nodes of its Redis: one, or as many as a cluster has masters.

use super::Link;
use super::board::{Board, View};
use super::cluster::Cluster;
use super::cluster_url::ClusterUrl;
use super::node::Node;
use super::sentinels::SentinelReport;
use super::settings::LinkSettings;
use crate::error::Error;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;

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

/// Where some slots are, each named by its place among them.
#[derive(Default)]
pub(crate) struct Grouped {
    /// Each node that has some, and which.
    pub(crate) nodes: Vec<(Arc<Link>, Vec<usize>)>,
    /// Those that no node has, or of which none says who has them: nothing can be sent there.
    pub(crate) nowhere: Vec<(usize, Error)>,
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
        let Grouped { nodes, nowhere } = self.group(&[slot], self.settings().deadline).await;
        let nowhere = nowhere.into_iter().next().map(|(_, error)| error);
        let node = nodes.into_iter().next().map(|(link, _)| link);
        node.ok_or_else(|| nowhere.expect("a slot is at a node or nowhere"))
    }

    /// Groups slots by the nodes that have them. If that is not known yet, the cluster is asked once for all of them, and
    /// waited for no longer than `within`.
    pub(crate) async fn group(&self, slots: &[u16], within: Duration) -> Grouped {
        let all = 0..slots.len();
        let cluster = match &self.0 {
            _ if slots.is_empty() => return Grouped::default(),
            Place::One(link) => {
                return Grouped { nodes: vec![(Arc::clone(link), all.collect())], nowhere: Vec::new() };
            }
            Place::Cluster { cluster, .. } => cluster,
        };
        let late = |_| {
            let why = format!("no node says within {within:?} who has which slot");
            Err(Error::Unreachable { address: self.address(), why })
        };
        let map = match timeout(within, Box::pin(cluster.map())).await.unwrap_or_else(late) {
            Ok(map) => map,
            Err(error) => {
                return Grouped { nodes: Vec::new(), nowhere: all.map(|i| (i, error.clone())).collect() };
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
        self.board().into_iter().for_each(|board| board.doubt());
        let detail = format!("no node of {} has slot {slot}", self.address());
        Error::Redis { code: "CLUSTERDOWN".to_owned(), detail }
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

    /// Where `from` redirects a call to; `None`: that cannot be read, or is `from` itself.
    pub(crate) fn redirected(from: &Link, to: &str) -> Option<Node> {
        let from = Node::parse(from.address(), 0)?;
        from.redirected(to).filter(|to| *to != from)
    }

    /// Nodes said that these slots are elsewhere now.
    pub(crate) fn moved(&self, slots: &[(u16, Node)]) {
        self.board().into_iter().for_each(|board| board.moved(slots));
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
    fn link(&self, node: &Node) -> Arc<Link> {
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
