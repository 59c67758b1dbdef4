//! One topic: counts, messages, policy, replays and purges.

mod deleting;
mod grouped;
mod histogram;
mod history;
mod horizon;
mod pausing;
mod policies;
mod purging;
mod replaying;

pub use deleting::TopicDeletion;
pub use history::History;
pub use horizon::Horizon;
pub use purging::PurgeWhat;
pub use replaying::ReplayOptions;

use super::listing::Listing;
use super::{Admin, TimeRange};
use crate::calls::Calls;
use crate::error::Error;
use delayq_core::id::Topic;
use delayq_core::shard::ShardId;
use delayq_core::target::Target;
use delayq_core::verbs::list::{self, ListState, Listed};

/// Inspects and operates one topic. See [`Admin::topic`].
///
/// ```no_run
/// # async fn example(admin: delayq::Admin, topic: delayq::Topic) -> Result<(), delayq::Error> {
/// let orders = admin.topic(&topic);
/// let numbers = orders.count().await?;
/// if numbers.dead > 0 {
///     orders.replay(&delayq::admin::ReplayOptions::default()).await?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TopicAdmin<'a> {
    pub(super) admin: &'a Admin,
    pub(super) topic: &'a Topic,
}

// === impl Admin ===

impl Admin {
    /// Returns the handle to a topic, which may have no message yet.
    pub const fn topic<'a>(&'a self, topic: &'a Topic) -> TopicAdmin<'a> {
        TopicAdmin { admin: self, topic }
    }
}

// === impl TopicAdmin ===

impl TopicAdmin<'_> {
    /// Looks up one message, or what is remembered of a finished message. `None`: nothing is known.
    ///
    /// # Errors
    /// Redis cannot be used.
    pub async fn get(self, target: &Target) -> Result<Option<Listed>, Error> {
        let (mut found, mut asked) = (None, Vec::new());
        while found.is_none() {
            let places = self.admin.client.calls.shared_layout().shards_of(target);
            let Some(shard) = places.into_iter().find(|place| !asked.contains(place)) else { break };
            asked.push(shard);
            found = peek(&self.admin.client.calls, shard, self.topic, &[target])
                .await?
                .pop()
                .expect("each target has one answer");
        }
        let envelope = found.iter_mut().filter_map(|listed| listed.envelope.as_mut().ok());
        self.admin.client.payloads.restore_all(envelope).await;
        Ok(found)
    }

    /// Lists the messages of a topic in one state and in the range, over all shards, at most `most`. Delayed, leased
    /// and dead messages are in the order of time, ready messages shard by shard.
    ///
    /// # Errors
    /// Redis cannot be used.
    pub async fn list(self, state: ListState, range: TimeRange, most: usize) -> Result<Vec<Listed>, Error> {
        let listing = Listing::Topic { topic: self.topic, state, range };
        Ok(self.admin.page(listing, None, most).await?.messages)
    }
}

/// Looks up the message of each target in one shard. An answer may leave out the last targets, which are asked for
/// again.
pub(super) async fn peek(
    calls: &Calls,
    shard: ShardId,
    topic: &Topic,
    targets: &[&Target],
) -> Result<Vec<Option<Listed>>, Error> {
    let mut found = Vec::new();
    while let Some(left) = targets.get(found.len()..).filter(|left| !left.is_empty()) {
        let read = |reply| list::read_peek(reply, shard, topic, left);
        found.extend(calls.ask(list::peek(shard, topic, left), read).await?);
    }
    Ok(found)
}
