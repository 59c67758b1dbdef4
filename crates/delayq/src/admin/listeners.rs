//! Which shards a timer listens to.

use super::Admin;
use crate::error::Error;
use delayq_core::keys::Channel;
use delayq_core::shard::ShardId;
use redis::from_redis_value;

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
        let counts: Vec<(String, u64)> = from_redis_value(self.client.calls.link().run(&numsub).await?)
            .map_err(|error| Error::Unfit(format!("PUBSUB answers what no Redis answers: {error}")))?;
        let silent = counts.iter().filter(|(_, count)| *count == 0);
        Ok(silent.filter_map(|(channel, _)| Some(keys.parse_channel(channel)?.0)).collect())
    }
}
