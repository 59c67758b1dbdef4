//! Finds messages: a single message, the messages of a topic in one state, or the messages of a group.

use super::{Admin, Listing, TimeRange};
use crate::error::Error;
use delayq_core::id::{Group, Topic};
use delayq_core::limits::MAX_IDS_A_CALL;
use delayq_core::shard::ShardId;
use delayq_core::target::Target;
use delayq_core::time::UnixMillis;
use delayq_core::verbs::cursor::Cursor;
use delayq_core::verbs::list::{self, ListPage, ListState, Listed, Query};

// === impl Admin ===

impl Admin {
    /// Looks up one message, or what is remembered of a finished message. `None`: nothing is known.
    ///
    /// # Errors
    /// Redis cannot be used.
    pub async fn get(&self, topic: &Topic, target: &Target) -> Result<Option<Listed>, Error> {
        let (mut found, mut asked) = (None, Vec::new());
        while found.is_none() {
            let places = self.client.calls.shared_layout().shards_of(target);
            let Some(shard) = places.into_iter().find(|place| !asked.contains(place)) else { break };
            asked.push(shard);
            found = self.peek(shard, topic, &[target]).await?.pop().expect("one answer for one target");
        }
        let envelope = found.iter_mut().filter_map(|listed| listed.envelope.as_mut().ok());
        self.client.payloads.restore_all(envelope).await;
        Ok(found)
    }

    /// Looks up the message of each target in one shard. An answer may leave out the last targets, which are asked for
    /// again.
    pub(super) async fn peek(
        &self,
        shard: ShardId,
        topic: &Topic,
        targets: &[&Target],
    ) -> Result<Vec<Option<Listed>>, Error> {
        let mut found = Vec::new();
        while let Some(left) = targets.get(found.len()..).filter(|left| !left.is_empty()) {
            let read = |reply| list::read_peek(reply, shard, topic, left);
            found.extend(self.client.calls.ask(list::peek(shard, topic, left), read).await?);
        }
        Ok(found)
    }

    /// Lists the messages of a topic in one state and in the range, over all shards, at most `most`. Delayed, leased
    /// and dead messages are in the order of time, ready messages shard by shard.
    ///
    /// # Errors
    /// Redis cannot be used.
    pub async fn list(
        &self,
        topic: &Topic,
        state: ListState,
        range: TimeRange,
        most: usize,
    ) -> Result<Vec<Listed>, Error> {
        Ok(self.page(Listing::Topic { topic, state, range }, None, most).await?.messages)
    }

    /// Reads one page of the messages of a topic in one shard.
    pub(super) async fn list_page(
        &self,
        shard: ShardId,
        query: Query<'_>,
        from: &Cursor,
        limit: u16,
    ) -> Result<ListPage, Error> {
        let read = |reply| list::read_topic(reply, shard, query.topic);
        self.client.calls.ask(list::topic(shard, query, from, limit), read).await
    }

    /// Returns the first `most` pending messages of a group by due time, and the number of all pending messages of the
    /// group.
    ///
    /// # Errors
    /// Redis cannot be used.
    pub async fn list_group(&self, group: &Group, most: usize) -> Result<(Vec<Listed>, u64), Error> {
        let (mut all, mut total, mut through) = (Vec::new(), 0, Vec::new());
        while let Some(shard) = self.client.calls.shared_layout().next_shard_of(group, &through) {
            let (some, has) = self.list_group_in(shard, group, most).await?;
            all.extend(some);
            total += has;
            through.push(shard);
        }
        all.sort_by_key(|listed| listed.envelope.as_ref().map_or(UnixMillis::MAX, |envelope| envelope.due));
        all.truncate(most);
        Ok((all, total))
    }

    async fn list_group_in(
        &self,
        shard: ShardId,
        group: &Group,
        most: usize,
    ) -> Result<(Vec<Listed>, u64), Error> {
        let (mut all, mut cursor) = (Vec::new(), Cursor::from(UnixMillis::new(0)));
        loop {
            let limit = most.saturating_sub(all.len()).clamp(1, MAX_IDS_A_CALL) as u16;
            let (page, total) = self
                .client
                .calls
                .ask(list::group(shard, group, &cursor, limit), |reply| list::read_group(reply, shard))
                .await?;
            all.extend(page.messages);
            match page.next.filter(|_| all.len() < most) {
                Some(next) => cursor = next,
                None => return Ok((all, total)),
            }
        }
    }
}
