//! The policy of a topic, and its rate.

use super::TopicAdmin;
use crate::error::Error;
use crate::payloads;
use delayq_core::call::Call;
use delayq_core::policy::{Policy, PolicySetting, TopicSettings};
use delayq_core::shard::{ShardCount, ShardId};
use delayq_core::verbs::settings;

// === impl TopicAdmin ===

impl TopicAdmin<'_> {
    /// Reads the policy of a topic in the first shard that is not left out. The paused flag and the rate are returned
    /// by [`Self::count`].
    ///
    /// # Errors
    /// Redis cannot be used.
    pub async fn policy(self) -> Result<Policy, Error> {
        let first = self.admin.shards().all().into_iter().next().unwrap_or(payloads::FIRST);
        payloads::policy(&self.admin.client.calls, first, self.topic).await
    }

    /// Sets the policy of a topic. A setting that is `None` returns to the default.
    ///
    /// # Errors
    /// Redis cannot be used; some shards may have the policy then. Safe to repeat.
    pub async fn set_policy(self, policy: &Policy) -> Result<(), Error> {
        self.configure(|_| policy.settings()).await
    }

    /// Changes a topic's policy: applies the settings in `set`, and returns the settings in `reset` to the defaults.
    /// All other settings stay.
    ///
    /// # Errors
    /// Redis cannot be used; some shards may have the change then. Safe to repeat.
    pub async fn change_policy(self, set: &Policy, reset: &[PolicySetting]) -> Result<(), Error> {
        match set.changes(reset) {
            none if none.is_empty() => Ok(()),
            changes => self.configure(|_| changes.clone()).await,
        }
    }

    /// Limits the reserved messages of a topic per second, over all shards: each shard gets a part. `None`: no limit.
    ///
    /// # Errors
    /// Redis cannot be used; some shards may have the limit then. Safe to repeat.
    pub async fn set_rate(self, a_second: Option<f64>) -> Result<(), Error> {
        let part = |rate: f64, shards: ShardCount| format!("{}", rate / f64::from(shards.get())).into_bytes();
        self.configure(|shards| vec![("rate", a_second.map_or_else(Vec::new, |rate| part(rate, shards)))])
            .await
    }

    pub(super) async fn configure(self, settings: impl Fn(ShardCount) -> TopicSettings) -> Result<(), Error> {
        self.to_every_shard(|count, shard| settings::configure(shard, self.topic, &settings(count))).await
    }

    /// Makes a call to every shard. Starts over if shards are added meanwhile.
    pub(super) async fn to_every_shard(
        self,
        call: impl Fn(ShardCount, ShardId) -> Call,
    ) -> Result<(), Error> {
        self.admin.client.calls.layout().await?;
        loop {
            let count = self.admin.client.calls.shards();
            let calls = count.shards().map(|shard| call(count, shard)).collect();
            let replies = self.admin.client.calls.send_all(calls).await;
            replies.into_iter().try_for_each(|reply| reply.map(drop))?;
            if self.admin.client.calls.shards() == count {
                return Ok(());
            }
        }
    }
}
