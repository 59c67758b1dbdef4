//! Counts listeners: finds shards without a listening timer, and counts the workers of a topic.

use super::Admin;
use crate::error::Error;
use delayq_core::id::Topic;
use delayq_core::keys::Channel;
use delayq_core::shard::ShardId;

/// Channels in one PUBSUB call.
const TOPICS_A_CALL: usize = 500;

// === impl Admin ===

impl Admin {
    /// Returns the shards without a listening timer: no timer that owns the shard is connected, or the timer may not
    /// listen.
    ///
    /// # Errors
    /// Redis cannot be used, or denies PUBSUB.
    pub async fn shards_without_listener(&self, shards: &[ShardId]) -> Result<Vec<ShardId>, Error> {
        let calls = &self.client.calls;
        let mut silent = Vec::new();
        for (link, here) in calls.by_node(shards).await? {
            let mut numsub = redis::cmd("PUBSUB");
            numsub.arg("SHARDNUMSUB");
            for &shard in &here {
                numsub.arg(calls.keys().channel(shard, Channel::Wake));
            }
            let counts: Vec<(String, u64)> = link.query("PUBSUB", &numsub).await?;
            let unheard = counts.iter().filter(|(_, count)| *count == 0);
            silent.extend(unheard.filter_map(|(channel, _)| Some(calls.keys().parse_channel(channel)?.0)));
        }
        silent.sort_unstable();
        Ok(silent)
    }

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
