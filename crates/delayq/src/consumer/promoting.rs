//! Promotes messages for a consumer that has room for more than is ready.

use crate::admin::Admin;
use crate::client::Client;
use crate::clock;
use delayq_core::id::Topic;
use delayq_core::shard::ShardId;
use delayq_core::time::UnixMillis;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::Instant;

/// Pause after a step that found nothing, or failed.
const PAUSE: Duration = Duration::from_secs(1);

pub(super) struct Promoting {
    admin: Admin,
    topics: Vec<Topic>,
    until: UnixMillis,
    next: Instant,
}

// === impl Promoting ===

impl Promoting {
    pub(super) fn new(client: &Client, topics: &[Topic], until: UnixMillis) -> Self {
        Self { admin: Admin::new(client.clone()), topics: topics.to_vec(), until, next: clock::instant() }
    }

    /// Promotes up to `room` messages, and returns their shards. Cancel safe: a message that is promoted is ready.
    pub(super) async fn step(&mut self, room: usize) -> BTreeSet<ShardId> {
        let mut shards = BTreeSet::new();
        if room == 0 || clock::instant() < self.next {
            return shards;
        }
        self.next = clock::instant() + PAUSE;
        let mut left = room;
        for topic in &self.topics {
            match self.admin.promote_earliest(topic, self.until, left).await {
                Ok(promoted) => {
                    left -= promoted.values().map(|&count| count as usize).sum::<usize>().min(left);
                    shards.extend(promoted.into_keys());
                }
                Err(error) => {
                    tracing::warn!(%topic, %error, "nothing can be promoted; trying again in a second");
                    break;
                }
            }
            if left == 0 {
                break;
            }
        }
        if !shards.is_empty() {
            self.next = clock::instant();
        }
        shards
    }
}
