//! Finding messages: one, those of a topic in one state, those of a group.

use super::{Admin, TimeRange};
use crate::{
    Error, Group, ListState, Listed, MAX_IDS_A_CALL, ShardId, Target, Topic, UnixMillis,
    verbs::{Cursor, Query},
};

// === impl Admin ===

impl Admin {
    /// Looks at one message, or at what is remembered of it. `None`: nothing is known.
    ///
    /// # Errors
    /// Redis cannot be used.
    pub async fn get(&self, topic: &Topic, target: &Target) -> Result<Option<Listed>, Error> {
        let (mut found, mut asked) = (None, Vec::new());
        while found.is_none() {
            let places = target.places(&self.client);
            let Some(shard) = places.into_iter().find(|place| !asked.contains(place)) else { break };
            asked.push(shard);
            let answers = self.client.peek_call(shard, topic, &[&target.id]).await?;
            found = answers.into_iter().next().expect("one answer for one id");
        }
        let envelope = found.iter_mut().filter_map(|listed| listed.envelope.as_mut().ok());
        self.client.restore_payloads(envelope).await;
        Ok(found)
    }

    /// The messages of a topic in one state, over all shards: those of the range, at most `most`. What is delayed,
    /// leased or dead comes in the order of its time, what is ready shard by shard.
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
        let (from, to) = match state {
            ListState::Dead { newest_first: true } => (range.to, range.from),
            _ => (range.from, range.to),
        };
        let query = Query { topic, state, to };
        let mut all = Vec::new();
        let mut shards = self.every_shard().await?;
        while let Some(shard) = shards.next() {
            all.extend(self.list_shard(shard, query, from, most).await?);
        }
        if state != ListState::Ready {
            all.sort_by_key(|listed| sort_key(listed, state));
        }
        all.truncate(most);
        self.client.restore_payloads(all.iter_mut().filter_map(|listed| listed.envelope.as_mut().ok())).await;
        Ok(all)
    }

    async fn list_shard(
        &self,
        shard: ShardId,
        query: Query<'_>,
        from: UnixMillis,
        most: usize,
    ) -> Result<Vec<Listed>, Error> {
        let mut found = Vec::new();
        let mut next = Some(Cursor::from(from));
        while let Some(cursor) = next.filter(|_| found.len() < most) {
            let limit = (most - found.len()).clamp(1, MAX_IDS_A_CALL) as u16;
            let page = self.client.list_call(shard, query, &cursor, limit).await?;
            found.extend(page.messages);
            next = page.next;
        }
        Ok(found)
    }

    /// The first `most` pending messages of a group by due time, and how many it has in all.
    ///
    /// # Errors
    /// Redis cannot be used.
    pub async fn list_group(&self, group: &Group, most: usize) -> Result<(Vec<Listed>, u64), Error> {
        let (mut all, mut total, mut through) = (Vec::new(), 0, Vec::new());
        while let Some(shard) = self.client.next_place_of(group, &through) {
            let (some, has) = self.list_group_in(shard, group, most).await?;
            all.extend(some);
            total += has;
            through.push(shard);
        }
        all.sort_by_key(|listed| sort_key(listed, ListState::Delayed));
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
            let (page, total) = self.client.list_group_call(shard, group, &cursor, limit).await?;
            all.extend(page.messages);
            match page.next.filter(|_| all.len() < most) {
                Some(next) => cursor = next,
                None => return Ok((all, total)),
            }
        }
    }
}

fn sort_key(listed: &Listed, state: ListState) -> i128 {
    let Ok(envelope) = &listed.envelope else { return i128::MAX };
    match state {
        ListState::Delayed | ListState::Ready => envelope.due.get().into(),
        ListState::Leased | ListState::Dead { newest_first: false } => envelope.at.get().into(),
        ListState::Dead { newest_first: true } => -i128::from(envelope.at.get()),
    }
}
