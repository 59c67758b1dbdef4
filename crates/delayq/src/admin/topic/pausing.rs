//! Pauses of a topic and of single groups of a topic.

use super::TopicAdmin;
use crate::error::Error;
use delayq_core::id::Group;
use delayq_core::limits::MAX_IDS_A_CALL;
use delayq_core::shard::ShardId;
use delayq_core::verbs::pause::{self, PausedGroup};

// === impl TopicAdmin ===

impl TopicAdmin<'_> {
    /// Stops a topic from being reserved: due messages become ready, and stay ready.
    ///
    /// # Errors
    /// Redis cannot be used; some shards may be paused then. Safe to repeat.
    pub async fn pause(self) -> Result<(), Error> {
        self.configure(|_| vec![("paused", b"1".to_vec())]).await
    }

    /// Lets a paused topic continue.
    ///
    /// # Errors
    /// Redis cannot be used; some shards may continue then. Safe to repeat.
    pub async fn resume(self) -> Result<(), Error> {
        self.configure(|_| vec![("paused", Vec::new())]).await
    }

    /// Stops one group of a topic from being reserved: due messages of the group become ready, and stay ready. The other
    /// messages of the topic pass them.
    ///
    /// # Errors
    /// Redis cannot be used; some shards may have the pause then. Safe to repeat.
    pub async fn pause_group(self, group: &Group) -> Result<(), Error> {
        self.to_every_shard(|_, shard| pause::request(shard, self.topic, true, [group])).await
    }

    /// Lets a paused group continue, in the order in which its messages became ready.
    ///
    /// # Errors
    /// Redis cannot be used; the group may continue in some shards then. Safe to repeat.
    pub async fn resume_group(self, group: &Group) -> Result<(), Error> {
        self.to_every_shard(|_, shard| pause::request(shard, self.topic, false, [group])).await
    }

    /// Returns the paused groups of a topic, the longest paused first, as the first shard that is not left out knows them.
    ///
    /// # Errors
    /// Redis cannot be used.
    pub async fn paused_groups(self) -> Result<Vec<PausedGroup>, Error> {
        let first = self.admin.shards().all().into_iter().next().unwrap_or(ShardId::new(0));
        self.paused_groups_in(first).await
    }

    pub(in crate::admin) async fn paused_groups_in(self, shard: ShardId) -> Result<Vec<PausedGroup>, Error> {
        let mut groups: Vec<PausedGroup> = Vec::new();
        loop {
            let call = pause::list(shard, self.topic, groups.last());
            let page = self.admin.client.calls.ask(call, pause::read_list).await?;
            let is_last = page.len() < MAX_IDS_A_CALL;
            groups.extend(page);
            if is_last {
                return Ok(groups);
            }
        }
    }
}
