//! Listening to several nodes: one ear at each node, for the shards at that node.

use super::ear::{Ear, FollowedChange, Notification};
use super::followed::Followed;
use crate::calls::Calls;
use crate::link::Link;
use crate::places::Places;
use delayq_core::shard::ShardId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_util::task::AbortOnDropHandle;

/// Pause before shards without a known node are looked up again.
const RETRY: Duration = Duration::from_millis(200);

pub(super) struct Spread {
    calls: Calls,
    followed: Followed,
    shards: BTreeSet<ShardId>,
    changes: mpsc::UnboundedReceiver<FollowedChange>,
    notify: mpsc::UnboundedSender<Notification>,
    ears: BTreeMap<String, Placed>,
    places: Places,
}

struct Placed {
    shards: BTreeSet<ShardId>,
    changes: mpsc::UnboundedSender<FollowedChange>,
    _task: AbortOnDropHandle<()>,
}

// === impl Spread ===

impl Spread {
    pub(super) fn new(
        calls: Calls,
        followed: Followed,
        shards: Vec<ShardId>,
        changes: mpsc::UnboundedReceiver<FollowedChange>,
        notify: mpsc::UnboundedSender<Notification>,
    ) -> Self {
        let places = Places::of(&calls);
        let shards = shards.into_iter().collect();
        Self { calls, followed, shards, changes, notify, ears: BTreeMap::new(), places }
    }

    pub(super) async fn run(mut self) {
        loop {
            let is_whole = self.place().await;
            let again = async {
                match is_whole {
                    false => sleep(RETRY).await,
                    true => std::future::pending().await,
                }
            };
            tokio::select! {
                change = self.changes.recv() => match change {
                    None => return,
                    Some(change) => self.change(change),
                },
                () = self.places.changed() => {}
                () = again => {}
            }
        }
    }

    /// Subscribes again to added shards that are followed already, so that a resync follows.
    fn change(&mut self, change: FollowedChange) {
        match change {
            FollowedChange::Add(shards) => {
                for ear in self.ears.values() {
                    let here: Vec<ShardId> =
                        shards.iter().copied().filter(|shard| ear.shards.contains(shard)).collect();
                    ear.tell(FollowedChange::Add, here);
                }
                self.shards.extend(shards);
            }
            FollowedChange::Remove(shards) => self.shards.retain(|shard| !shards.contains(shard)),
        }
    }

    /// No shard is followed at two nodes. True if each shard that can have a node has a node.
    async fn place(&mut self) -> bool {
        let has_node = |shard: &ShardId| self.calls.nodes().has_node(*shard);
        let shards: Vec<ShardId> = self.shards.iter().copied().filter(has_node).collect();
        let (nodes, nowhere) = self.calls.placed(&shards).await;
        if let Some((shard, error)) = nowhere.first() {
            let shards = nowhere.len();
            tracing::debug!(%shard, %error, shards, "not listening to these shards until a node has them");
        }
        let mut wanted: BTreeMap<String, (Arc<Link>, BTreeSet<ShardId>)> = nodes
            .into_iter()
            .map(|(link, shards)| (link.label().to_owned(), (link, shards.into_iter().collect())))
            .collect();
        self.ears.retain(|node, ear| match wanted.remove(node) {
            None => false,
            Some((_, shards)) => {
                ear.tell(FollowedChange::Remove, ear.shards.difference(&shards).copied().collect());
                ear.tell(FollowedChange::Add, shards.difference(&ear.shards).copied().collect());
                ear.shards = shards;
                true
            }
        });
        let in_cluster = self.calls.nodes().is_cluster();
        for (node, (link, shards)) in wanted {
            let (changes, changed) = mpsc::unbounded_channel();
            let place = (link, self.calls.keys().clone(), self.followed.clone());
            let ear = Ear::new(place, shards.iter().copied(), (changed, self.notify.clone()), in_cluster);
            let _task = AbortOnDropHandle::new(tokio::spawn(ear.run()));
            self.ears.insert(node, Placed { shards, changes, _task });
        }
        nowhere.is_empty()
    }
}

// === impl Placed ===

impl Placed {
    fn tell(&self, change: impl FnOnce(Vec<ShardId>) -> FollowedChange, shards: Vec<ShardId>) {
        if !shards.is_empty() {
            let _ = self.changes.send(change(shards));
        }
    }
}
