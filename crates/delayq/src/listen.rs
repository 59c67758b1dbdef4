//! Listening to the channels of shards: wake-ups for owners, ready queues for holders.
//!
//! Pub/sub loses messages that are published while no subscriber is connected. Each new connection therefore begins
//! with a [`Notification::Resync`]: from then on no notification is missed, and earlier events have to be asked for.
//!
//! A Redis that was replaced may keep the connection and stay silent. A writer notices that first, and makes the
//! listener reconnect.
//!
//! The channels of a shard are at the shard's node. With several nodes, each node has a connection
//! (`listen/spread.rs`), and a shard that moves to another cluster node is followed to that node.

mod ear;
mod followed;
mod spread;

pub use ear::Notification;

pub(crate) use ear::try_listening;
pub(crate) use followed::Followed;

use crate::calls::Calls;
use delayq_core::shard::ShardId;
use ear::{Ear, FollowedChange};
use spread::Spread;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

/// A running listener, which ends when dropped.
#[derive(Debug)]
#[must_use = "dropping the handle ends the task"]
pub struct Listener {
    shards: mpsc::UnboundedSender<FollowedChange>,
    notified: mpsc::UnboundedReceiver<Notification>,
    _task: AbortOnDropHandle<()>,
}

// === impl Listener ===

impl Listener {
    /// Uses separate connections.
    pub(crate) fn start(calls: &Calls, followed: Followed, shards: Vec<ShardId>) -> Self {
        let (shards_tx, changes) = mpsc::unbounded_channel();
        let (notify, notified) = mpsc::unbounded_channel();
        let task = match calls.nodes().only() {
            Some(link) => {
                let place = (Arc::clone(link), calls.keys().clone(), followed);
                tokio::spawn(Ear::new(place, shards, (changes, notify), false).run())
            }
            None => tokio::spawn(Spread::new(calls.clone(), followed, shards, changes, notify).run()),
        };
        Self { shards: shards_tx, notified, _task: AbortOnDropHandle::new(task) }
    }

    /// Listens to more shards. A [`Notification::Resync`] follows once the subscription is in place.
    pub fn add(&self, shards: Vec<ShardId>) {
        let _ = self.shards.send(FollowedChange::Add(shards));
    }

    /// Listens to fewer shards.
    pub fn remove(&self, shards: Vec<ShardId>) {
        let _ = self.shards.send(FollowedChange::Remove(shards));
    }

    /// Waits for the next notification. Cancel safe.
    pub async fn next(&mut self) -> Notification {
        match self.notified.recv().await {
            Some(notification) => notification,
            // The task ends only with its listener.
            None => std::future::pending().await,
        }
    }

    /// The next notification, if a notification has already arrived.
    pub fn try_next(&mut self) -> Option<Notification> {
        self.notified.try_recv().ok()
    }
}
