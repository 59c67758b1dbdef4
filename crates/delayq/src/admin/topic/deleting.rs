//! Deletes empty topics.

use super::TopicAdmin;
use crate::error::Error;
use delayq_core::shard::ShardId;
use delayq_core::verbs::forget::{self, Forgotten};

/// The result of deleting a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a topic with messages is not deleted"]
pub enum TopicDeletion {
    /// The topic and the policy are deleted.
    Deleted,
    /// No shard knows the topic.
    Unknown,
    /// These shards keep the topic, each because of this content.
    Kept(Vec<(ShardId, String)>),
}

// === impl TopicAdmin ===

impl TopicAdmin<'_> {
    /// Deletes a topic without messages, with the policy and the counters. Finished ids of the topic are no longer
    /// recognised: a put with such an id is a new message. If any shard holds a message of the topic, nothing is
    /// changed. A message that is put during the deletion keeps the topic in the shard of the message, with default
    /// settings if other shards have already lost the policy.
    ///
    /// # Errors
    /// Redis cannot be used; some shards may have deleted the topic then. Safe to repeat.
    pub async fn delete(self) -> Result<TopicDeletion, Error> {
        match self.forget(true).await? {
            TopicDeletion::Deleted => self.forget(false).await,
            other => Ok(other),
        }
    }

    async fn forget(self, look: bool) -> Result<TopicDeletion, Error> {
        let (mut known, mut kept, mut shards) = (false, Vec::new(), self.admin.every_shard().await?);
        while let Some(shard) = shards.next() {
            match self.admin.client.calls.ask(forget::request(shard, self.topic, look), forget::read).await? {
                Forgotten::Empty => known = true,
                Forgotten::Unknown => {}
                Forgotten::Kept(why) => kept.push((shard, why)),
            }
        }
        Ok(match (known, kept.is_empty()) {
            (_, false) => TopicDeletion::Kept(kept),
            (true, true) => TopicDeletion::Deleted,
            (false, true) => TopicDeletion::Unknown,
        })
    }
}
