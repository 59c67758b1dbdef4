//! Counts the workers of a topic.

use super::Admin;
use crate::error::Error;
use delayq_core::id::Topic;
use delayq_core::shard::ShardId;

/// Channels in one PUBSUB call.
const TOPICS_A_CALL: usize = 500;

// === impl Admin ===

impl Admin {
    /// Counts the connections of workers that listen for messages of each topic now, with clients in any language.
    /// Forwarders, and workers that are not connected or may not listen, are not counted.
    ///
    /// # Errors
    /// Redis cannot be used, or denies PUBSUB.
    pub async fn workers(&self, topics: &[Topic]) -> Result<Vec<u64>, Error> {
        let calls = &self.client.calls;
        let mut counted = Vec::with_capacity(topics.len());
        for (link, _) in calls.by_node(&[ShardId::new(0)]).await? {
            for topics in topics.chunks(TOPICS_A_CALL) {
                let mut numsub = redis::cmd("PUBSUB");
                numsub.arg("SHARDNUMSUB");
                topics.iter().for_each(|topic| {
                    numsub.arg(calls.keys().workers(topic));
                });
                let counts: Vec<(String, u64)> = link.query("PUBSUB", &numsub).await?;
                counted.extend(counts.into_iter().map(|(_, count)| count));
            }
        }
        Ok(counted)
    }
}
