//! Finds shards without a listening timer.

use super::ShardsAdmin;
use crate::error::Error;
use delayq_core::keys::Channel;
use delayq_core::shard::ShardId;

// === impl ShardsAdmin ===

impl ShardsAdmin<'_> {
    /// Returns the shards without a listening timer: no timer that owns the shard is connected, or the timer may not
    /// listen.
    ///
    /// # Errors
    /// Redis cannot be used, or denies PUBSUB.
    pub async fn without_listener(self, shards: &[ShardId]) -> Result<Vec<ShardId>, Error> {
        let calls = &self.admin.client.calls;
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
