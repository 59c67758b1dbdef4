//! The nodes of a Redis Cluster, and the node of each slot.
//!
//! The map is learned from CLUSTER SLOTS, which names the port that this connection would use, with or without TLS. The
//! map is refreshed when a node refuses a call because of the slot, when a connection is lost, when a node is silent,
//! and at intervals; ever less often while doubts bring nothing new. Among the answering nodes, the node with the
//! latest epoch is believed: a node that is cut off from the cluster still answers with the old map.
//!
//! Nothing is sent again here: a call that a node refused as MOVED was not carried out, and only a refused call is sent
//! to another node.

mod asking;
mod known_slots;
mod links;
mod slot_map;

pub(crate) use known_slots::View;
pub(crate) use links::ClusterLinks;

use crate::error::Error;
use crate::link::{ClusterUrl, LinkSettings};
use asking::{Asking, PATIENCE};
use known_slots::KnownSlots;
use slot_map::SlotMap;
use std::sync::{Arc, Mutex};
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

/// The map is refreshed from the first use until this value is dropped.
pub(crate) struct Cluster {
    slots: Arc<KnownSlots>,
    asking: Mutex<Option<AbortOnDropHandle<()>>>,
}

// === impl Cluster ===

impl Cluster {
    pub(crate) fn new(url: ClusterUrl, settings: LinkSettings) -> Self {
        Self { slots: Arc::new(KnownSlots::new(url, settings)), asking: Mutex::default() }
    }

    pub(crate) fn slots(&self) -> &Arc<KnownSlots> {
        &self.slots
    }

    /// Returns the last known map. The first call asks a node.
    ///
    /// # Errors
    /// Each node's failure: [`Error::Unfit`] if all that answered refuse for good.
    pub(crate) async fn map(&self) -> Result<Arc<SlotMap>, Error> {
        self.ask();
        let mut views = self.slots.view.subscribe();
        if let Some(map) = &views.borrow().map {
            return Ok(Arc::clone(map));
        }
        // Answers from before this question do not count.
        if views.borrow().round >= *self.slots.round.borrow() {
            self.slots.doubt();
        }
        let round = *self.slots.round.borrow();
        let answered = views.wait_for(|view| view.map.is_some() || view.round >= round);
        // The pause after the previous round, plus the round itself.
        let within = self.slots.settings().connect_timeout + 2 * PATIENCE;
        let failed = match timeout(within, answered).await {
            Ok(view) => match view.expect("the sender is this cluster's own").clone() {
                View { map: Some(map), .. } => return Ok(map),
                View { why, .. } => why,
            },
            Err(_) => None,
        };
        let silence = || {
            let why = "no node answers".to_owned();
            Error::Unreachable { address: self.slots.settings().address(), why }
        };
        Err(failed.unwrap_or_else(silence))
    }

    /// Starts the task that refreshes the map, unless the task already runs. A runtime that ended has aborted its
    /// tasks.
    fn ask(&self) {
        let mut asking = self.asking.lock().expect("no code panics while holding the lock");
        if asking.as_ref().is_none_or(AbortOnDropHandle::is_finished) {
            let run = Asking::new(Arc::clone(&self.slots)).run();
            *asking = Some(AbortOnDropHandle::new(tokio::spawn(run)));
        }
    }
}
