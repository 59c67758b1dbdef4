//! Which shards a timer listens to.

use super::Admin;
use crate::error::Error;
use delayq_core::keys::Channel;
use delayq_core::shard::ShardId;

// === impl Admin ===

impl Admin {
    /// Those of the shards to which no timer listens: none is connected that owns them, or it may not listen.
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
}
