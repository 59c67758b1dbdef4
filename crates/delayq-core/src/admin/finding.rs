//! Finding messages: one, those of a topic in one state, those of a group.

use super::{Admin, TimeRange};
use crate::{Error, Group, ListState, Listed, MAX_IDS_A_CALL, ShardId, Target, Topic, verbs::Query};

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
        let query = Query { topic, state, from, to };
        let mut all = Vec::new();
        let mut shards = self.every_shard().await?;
        while let Some(shard) = shards.next() {
            all.extend(self.list_shard(shard, query, most).await?);
        }
        if state != ListState::Ready {
            all.sort_by_key(|listed| sort_key(listed, state));
        }
        all.truncate(most);
        self.client.restore_payloads(all.iter_mut().filter_map(|listed| listed.envelope.as_mut().ok())).await;
        Ok(all)
    }

    async fn list_shard(&self, shard: ShardId, query: Query<'_>, most: usize) -> Result<Vec<Listed>, Error> {
        let mut found = Vec::new();
        let mut next = Some((query.from, 0));
        while let Some((from, offset)) = next.filter(|_| found.len() < most) {
            let limit = (most - found.len()).clamp(1, MAX_IDS_A_CALL) as u16;
            let page = self.client.list_call(shard, Query { from, ..query }, offset, limit).await?;
            found.extend(page.messages);
            next = page.next;
        }
        Ok(found)
    }

    /// The pending messages of a group by due time, and how many it has in all.
    ///
    /// # Errors
    /// Redis cannot be used.
    pub async fn list_group(
        &self,
        group: &Group,
        offset: u64,
        most: u16,
    ) -> Result<(Vec<Listed>, u64), Error> {
        let most = most.clamp(1, MAX_IDS_A_CALL as u16);
        let first = self.client.next_place_of(group, &[]).expect("a group has a place");
        let page = self.client.list_group_call(first, group, offset, most).await?;
        if self.client.next_place_of(group, &[first]).is_none() {
            return Ok(page);
        }
        let (mut all, mut total, mut through) = (Vec::new(), 0, Vec::new());
        // Of each place the messages that may be shown: those before the last one that is asked for.
        let wanted = usize::try_from(offset).unwrap_or(usize::MAX).saturating_add(most.into());
        while let Some(shard) = self.client.next_place_of(group, &through) {
            let (some, has) = self.list_group_in(shard, group, wanted).await?;
            all.extend(some);
            total += has;
            through.push(shard);
        }
        all.sort_by_key(|listed| sort_key(listed, ListState::Delayed));
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(all.len());
        let mut page = all.split_off(from);
        page.truncate(most.into());
        Ok((page, total))
    }

    async fn list_group_in(
        &self,
        shard: ShardId,
        group: &Group,
        wanted: usize,
    ) -> Result<(Vec<Listed>, u64), Error> {
        let (mut all, mut from) = (Vec::new(), 0_u64);
        loop {
            let limit = (wanted - all.len()).clamp(1, MAX_IDS_A_CALL) as u16;
            let (some, total) = self.client.list_group_call(shard, group, from, limit).await?;
            from += u64::from(limit);
            all.extend(some);
            if all.len() >= wanted || from >= total {
                return Ok((all, total));
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
