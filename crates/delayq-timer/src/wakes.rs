//! The subscription to shards' wake-ups.

use delayq::protocol::{Listener, Notification, Owner, ShardId};
use std::collections::BTreeSet;

pub(crate) struct Wakes {
    listener: Listener,
    shards: BTreeSet<ShardId>,
}

// === impl Wakes ===

impl Wakes {
    /// Must be called in the runtime that runs the loop.
    pub(crate) fn new(shards: &Owner) -> Self {
        Self { listener: shards.listen(Vec::new()), shards: BTreeSet::new() }
    }

    /// Cancel safe.
    pub(crate) async fn next(&mut self) -> Notification {
        self.listener.next().await
    }

    pub(crate) fn try_next(&mut self) -> Option<Notification> {
        self.listener.try_next()
    }

    /// Listens to `wanted` and to nothing else. Subscribes to `gained` shards again, so that a resync follows earlier
    /// notifications.
    pub(crate) fn follow(&mut self, wanted: BTreeSet<ShardId>, gained: Vec<ShardId>) {
        let add: BTreeSet<ShardId> = wanted.difference(&self.shards).copied().chain(gained).collect();
        let remove: Vec<ShardId> = self.shards.difference(&wanted).copied().collect();
        if !remove.is_empty() {
            self.listener.remove(remove);
        }
        if !add.is_empty() {
            self.listener.add(add.into_iter().collect());
        }
        self.shards = wanted;
    }
}
