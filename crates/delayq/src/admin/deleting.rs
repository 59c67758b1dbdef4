//! Deleting topics that hold nothing.

use super::Admin;
use crate::error::Error;
use delayq_core::id::Topic;
use delayq_core::shard::ShardId;
use delayq_core::verbs::forget::{self, Forgotten};

/// What became of a topic that was to be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a topic that holds a message is kept"]
pub enum TopicDeletion {
    /// It is gone, and its policy with it.
    Deleted,
    /// No shard knows it.
    Unknown,
    /// These shards keep it, each because it holds this.
    Kept(Vec<(ShardId, String)>),
}

// === impl Admin ===

impl Admin {
    /// Deletes a topic that holds no message, with its policy and its counters. Its finished ids are not recognised any
    /// more: a put of one is a new message. Where any shard holds a message of it, nothing is changed; one that is put
    /// while this runs keeps the topic in its shard, at the defaults where others have lost the policy already.
    ///
    /// # Errors
    /// Redis cannot be used; some shards may have deleted it then. Safe to repeat.
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
