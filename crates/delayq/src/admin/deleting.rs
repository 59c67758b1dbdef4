//! Deletes empty topics.

use super::Admin;
use crate::error::Error;
use delayq_core::id::Topic;
use delayq_core::shard::ShardId;
use delayq_core::verbs::forget::{self, Forgotten};

/// The result of deleting a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a topic that holds a message is kept"]
pub enum TopicDeletion {
    /// The topic and the policy are deleted.
    Deleted,
    /// No shard knows the topic.
    Unknown,
    /// These shards keep the topic, each because of this content.
    Kept(Vec<(ShardId, String)>),
}

// === impl Admin ===

impl Admin {
    /// Deletes a topic without messages, with the policy and the counters. Finished ids of the topic are no longer
    /// recognised: a put with such an id is a new message. If any shard holds a message of the topic, nothing is
    /// changed. A message that is put during the deletion keeps the topic in the shard of the message, with default
    /// settings if other shards have already lost the policy.
    ///
    /// # Errors
    /// Redis cannot be used; some shards may have deleted the topic then. Safe to repeat.
    pub async fn delete_topic(&self, topic: &Topic) -> Result<TopicDeletion, Error> {
        match self.forget(topic, true).await? {
            TopicDeletion::Deleted => self.forget(topic, false).await,
            other => Ok(other),
        }
    }

    async fn forget(&self, topic: &Topic, look: bool) -> Result<TopicDeletion, Error> {
        let (mut known, mut kept, mut shards) = (false, Vec::new(), self.every_shard().await?);
        while let Some(shard) = shards.next() {
            match self.client.calls.ask(forget::request(shard, topic, look), forget::read).await? {
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
