//! The nodes of a Redis Cluster, and which of them has which slot.
//!
//! The map is learned from CLUSTER SLOTS, which names the port that this connection would use, with or without TLS. It is
//! asked for again when a node refuses a call for its slot, a connection is lost, a node is silent, and from time to time.
//! Of the nodes that answer the one that has seen the latest epoch is believed: a node that is cut off from the others
//! still answers with the map of before.
//!
//! Nothing is sent anew here: what a node refused as MOVED was not carried out, and only that is sent to another one.

mod asking;
mod map;

pub(crate) use map::SlotMap;

use super::cluster_url::ClusterUrl;
use super::node::Node;
use super::settings::LinkSettings;
use crate::error::Error;
use asking::Asking;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

/// How much longer than a connection takes the first answer is waited for.
const PATIENCE: Duration = Duration::from_millis(250);

/// A Redis Cluster. Its map is asked for from the first use on, until this is dropped.
pub(crate) struct Cluster {
    board: Arc<Board>,
    asking: Mutex<Option<AbortOnDropHandle<()>>>,
}

/// What is known of a cluster. Who asks it writes, those who call it read.
pub(crate) struct Board {
    url: ClusterUrl,
    settings: LinkSettings,
    view: watch::Sender<View>,
    /// The round of questions; from 1.
    round: watch::Sender<u64>,
}

/// The map, and when it was asked for.
#[derive(Clone, Default)]
pub(crate) struct View {
    /// The last round that was answered, or failed.
    round: u64,
    /// Rises with each change of the map.
    pub(crate) version: u64,
    /// `None`: no node has answered yet.
    pub(crate) map: Option<Arc<SlotMap>>,
    /// Why the last round failed.
    why: Option<String>,
}

// === impl Cluster ===

impl Cluster {
    pub(crate) fn new(url: ClusterUrl, settings: LinkSettings) -> Self {
        let (view, round) = (watch::Sender::new(View::default()), watch::Sender::new(1));
        Self { board: Arc::new(Board { url, settings, view, round }), asking: Mutex::default() }
    }

    pub(crate) fn board(&self) -> &Arc<Board> {
        &self.board
    }

    /// The map, as it was known last. The first time a node is asked for it.
    ///
    /// # Errors
    /// No node answered: what each of them said.
    pub(crate) async fn map(&self) -> Result<Arc<SlotMap>, Error> {
        self.ask();
        let mut views = self.board.view.subscribe();
        if let Some(map) = &views.borrow().map {
            return Ok(Arc::clone(map));
        }
        // What was said before this question does not count.
        if views.borrow().round >= *self.board.round.borrow() {
            self.board.doubt();
        }
        let round = *self.board.round.borrow();
        let answered = views.wait_for(|view| view.map.is_some() || view.round >= round);
        let why = match timeout(self.board.settings.connect_timeout + PATIENCE, answered).await {
            Ok(view) => match view.expect("the sender is this cluster's own").clone() {
                View { map: Some(map), .. } => return Ok(map),
                View { why, .. } => why.unwrap_or_default(),
            },
            Err(_) => "no node answers".to_owned(),
        };
        Err(Error::Unreachable { address: self.board.settings.address(), why })
    }

    /// Asks for the map from now on, unless that is done already. A runtime that ended has taken its tasks with it.
    fn ask(&self) {
        let mut asking = self.asking.lock().expect("nothing panics while it holds the task");
        if asking.as_ref().is_none_or(AbortOnDropHandle::is_finished) {
            let run = Asking::new(Arc::clone(&self.board)).run();
            *asking = Some(AbortOnDropHandle::new(tokio::spawn(run)));
        }
    }
}

// === impl Board ===

impl Board {
    /// How to connect to a node.
    pub(super) fn node(&self, node: &Node) -> redis::ConnectionInfo {
        self.url.node(node)
    }

    pub(crate) fn settings(&self) -> &LinkSettings {
        &self.settings
    }

    /// Has the map asked for again now.
    pub(crate) fn doubt(&self) {
        self.round.send_modify(|round| *round += 1);
    }

    /// Follows the map.
    pub(crate) fn views(&self) -> watch::Receiver<View> {
        self.view.subscribe()
    }

    /// A node said that this slot is another's now.
    pub(crate) fn moved(&self, slot: u16, to: &Node) {
        self.view.send_if_modified(|view| {
            let Some(map) = &view.map else { return false };
            let map = map.with(slot, to);
            view.replace(map)
        });
        self.doubt();
    }

    /// Takes in what the nodes answered.
    fn note(&self, round: u64, found: Result<SlotMap, String>) {
        self.view.send_modify(|view| {
            view.round = round;
            match found {
                Ok(map) => {
                    view.tell(&map);
                    view.replace(map);
                    view.why = None;
                }
                Err(why) => {
                    if view.why.is_none() {
                        tracing::warn!(%why, "no node of the cluster says who has which slot");
                    }
                    view.why = Some(why);
                }
            }
        });
    }
}

// === impl View ===

impl View {
    /// Whether the map differs from the one before.
    fn replace(&mut self, map: SlotMap) -> bool {
        let differs = self.map.as_deref() != Some(&map);
        if differs {
            self.map = Some(Arc::new(map));
            self.version += 1;
        }
        differs
    }

    fn tell(&self, map: &SlotMap) {
        let Some(before) = &self.map else { return };
        for gone in before.masters().iter().filter(|node| !map.masters().contains(node)) {
            tracing::warn!(node = %gone, "a node of the cluster is no longer the master of any slot");
        }
        for new in map.masters().iter().filter(|node| !before.masters().contains(node)) {
            tracing::info!(node = %new, "a node of the cluster is a master now");
        }
    }
}
