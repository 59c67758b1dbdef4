//! Which shards a timer listens to.

use super::Admin;
use crate::error::Error;
use delayq_core::keys::Channel;
use delayq_core::shard::ShardId;

// === impl Admin ===

impl Admin {
    /// Those of the shards to which no timer listens: none is connected that owns them, or it may not listen. Only this
    /// node of a cluster is asked.
    ///
    /// # Errors
    /// Redis cannot be used, or denies PUBSUB.
    pub async fn shards_without_listener(&self, shards: &[ShardId]) -> Result<Vec<ShardId>, Error> {
        let keys = self.client.calls.keys();
        let mut numsub = redis::cmd("PUBSUB");
        numsub.arg("SHARDNUMSUB");
        for &shard in shards {
            numsub.arg(keys.channel(shard, Channel::Wake));
        }
        let counts: Vec<(String, u64)> = self.client.calls.link().query("PUBSUB", &numsub).await?;
        let silent = counts.iter().filter(|(_, count)| *count == 0);
        Ok(silent.filter_map(|(channel, _)| Some(keys.parse_channel(channel)?.0)).collect())
    }
}
