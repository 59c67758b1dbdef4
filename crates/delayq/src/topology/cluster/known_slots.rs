//! The known state of a Redis Cluster: the node of each slot.

use super::slot_map::SlotMap;
use crate::error::Error;
use crate::link::{ClusterUrl, Link, LinkSettings, Node, NodeOfCluster};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokio::sync::watch;
use tokio::time::Instant;

/// Written by the asking task, read by callers.
pub(crate) struct KnownSlots {
    pub(super) url: ClusterUrl,
    settings: LinkSettings,
    pub(super) view: watch::Sender<View>,
    /// The round of questions; from 1.
    pub(super) round: watch::Sender<u64>,
    /// Doubts per node: a connection that has answered nothing since this time is not used again.
    doubted: Mutex<BTreeMap<Node, watch::Sender<Instant>>>,
}

#[derive(Clone, Default)]
pub(crate) struct View {
    /// The last round that was answered or failed.
    pub(super) round: u64,
    /// Increases with each change of the map.
    pub(crate) version: u64,
    /// `None` until a node has answered.
    pub(crate) map: Option<Arc<SlotMap>>,
    pub(super) why: Option<Error>,
}

// === impl KnownSlots ===

impl KnownSlots {
    pub(super) fn new(url: ClusterUrl, settings: LinkSettings) -> Self {
        let (view, round) = (watch::Sender::new(View::default()), watch::Sender::new(1));
        Self { url, settings, view, round, doubted: Mutex::default() }
    }

    /// All connections to a node share its doubts. A connection that is made at `now` or later is not in
    /// doubt.
    fn doubted(&self, node: &Node, now: Instant) -> watch::Sender<Instant> {
        let mut doubted = self.doubted.lock().expect("no code panics while holding the lock");
        // Drop the doubts of nodes without any connection.
        doubted.retain(|known, doubted| known == node || doubted.sender_count() > 1);
        doubted.entry(node.clone()).or_insert_with(|| watch::Sender::new(now)).clone()
    }

    /// If `doubts`, a failure of the node has the map refreshed.
    pub(super) fn link(self: &Arc<Self>, node: &Node, doubts: bool) -> Link {
        let doubted = doubts.then(|| Arc::clone(self));
        let of_cluster = NodeOfCluster {
            node: node.clone(),
            info: self.url.node(node),
            settings: self.settings.clone(),
            on_doubt: Box::new(move || doubted.iter().for_each(|known| known.doubt())),
        };
        Link::of_node(of_cluster, |now| self.doubted(node, now))
    }

    pub(crate) fn settings(&self) -> &LinkSettings {
        &self.settings
    }

    pub(crate) fn doubt(&self) {
        self.round.send_modify(|round| *round += 1);
    }

    pub(crate) fn views(&self) -> watch::Receiver<View> {
        self.view.subscribe()
    }

    pub(crate) fn moved(&self, slots: &[(u16, Node)]) {
        self.view.send_if_modified(|view| {
            let Some(map) = &view.map else { return false };
            let is_new = |(slot, to): &&(u16, Node)| map.node(*slot) != Some(to);
            let new: Vec<&(u16, Node)> = slots.iter().filter(is_new).collect();
            if new.is_empty() {
                return false;
            }
            let map = map.with(&new);
            view.tell(&map);
            view.replace(map)
        });
    }

    pub(super) fn note(&self, round: u64, found: Result<SlotMap, Error>) {
        self.view.send_modify(|view| {
            view.round = round;
            match found {
                Ok(map) => {
                    let map = match &view.map {
                        Some(before) => map.or(before),
                        None => map,
                    };
                    view.tell(&map);
                    view.replace(map);
                    view.why = None;
                }
                Err(error) => {
                    if view.why.is_none() {
                        tracing::warn!(%error, "cannot read the slots from any node of the cluster");
                    }
                    view.why = Some(error);
                }
            }
        });
    }
}

// === impl View ===

impl View {
    /// True if the map changed.
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
            tracing::warn!(node = %gone, "a cluster node is no longer the master of any slot");
        }
        for new in map.masters().iter().filter(|node| !before.masters().contains(node)) {
            tracing::info!(node = %new, "a cluster node is now a master");
        }
    }
}
