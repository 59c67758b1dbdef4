//! The nodes of a Redis Cluster, and which of them has which slot.
//!
//! The map is learned from CLUSTER SLOTS, which names the port that this connection would use, with or without TLS. It is
//! asked for again when a node refuses a call for its slot, a connection is lost, a node is silent, and from time to time;
//! ever less often while such doubts bring nothing new.
//! Of the nodes that answer the one that has seen the latest epoch is believed: a node that is cut off from the others
//! still answers with the map of before.
//!
//! Nothing is sent again here: what a node refused as MOVED was not carried out, and only that is sent to another one.

mod asking;
mod board;
mod links;
mod slot_map;

pub(crate) use board::View;
pub(crate) use links::ClusterLinks;

use crate::error::Error;
use crate::link::{ClusterUrl, LinkSettings};
use asking::{Asking, PATIENCE};
use board::Board;
use slot_map::SlotMap;
use std::sync::{Arc, Mutex};
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

/// A Redis Cluster. Its map is asked for from the first use on, until this is dropped.
pub(crate) struct Cluster {
    board: Arc<Board>,
    asking: Mutex<Option<AbortOnDropHandle<()>>>,
}

// === impl Cluster ===

impl Cluster {
    pub(crate) fn new(url: ClusterUrl, settings: LinkSettings) -> Self {
        Self { board: Arc::new(Board::new(url, settings)), asking: Mutex::default() }
    }

    pub(crate) fn board(&self) -> &Arc<Board> {
        &self.board
    }

    /// The map, as it was known last. The first time a node is asked for it.
    ///
    /// # Errors
    /// What each node said: [`Error::Unfit`] if those that answered refuse for good.
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
        // The rest after the round before, and the round itself.
        let within = self.board.settings().connect_timeout + 2 * PATIENCE;
        let failed = match timeout(within, answered).await {
            Ok(view) => match view.expect("the sender is this cluster's own").clone() {
                View { map: Some(map), .. } => return Ok(map),
                View { why, .. } => why,
            },
            Err(_) => None,
        };
        let silence = || {
            let why = "no node answers".to_owned();
            Error::Unreachable { address: self.board.settings().address(), why }
        };
        Err(failed.unwrap_or_else(silence))
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
