//! Replaying dead letters: by id, or all that fit.

use super::{Admin, TimeRange};
use crate::{
    Error, ListState, Listed, MAX_IDS_A_CALL, MessageId, Replayed, ShardId, State, Target, Topic,
    verbs::{Cursor, Query},
};
use std::{collections::BTreeMap, time::Duration};

/// Which dead letters, and how fast they come back.
#[derive(Clone, Debug)]
pub struct ReplayOptions {
    /// Those that died in this range.
    pub died: TimeRange,
    /// Those whose reason has this text; `None`: all.
    pub reason: Option<String>,
    /// At most so many; `None`: all.
    pub most: Option<u64>,
    /// Ready after this delay.
    pub delay: Duration,
    /// At most so many a second; `None`: as fast as it goes. They become due one after the other.
    pub rate: Option<u32>,
}

// === impl ReplayOptions ===

impl Default for ReplayOptions {
    fn default() -> Self {
        Self { died: TimeRange::ALL, reason: None, most: None, delay: Duration::ZERO, rate: None }
    }
}

impl ReplayOptions {
    /// How many go in one call.
    fn step(&self) -> usize {
        self.rate.map_or(MAX_IDS_A_CALL, |rate| (rate as usize / 10).clamp(1, MAX_IDS_A_CALL))
    }

    /// When those become due that follow so many.
    fn delay_behind(&self, replayed: u64) -> Duration {
        let wait = |rate: u32| Duration::from_millis(replayed * 1000 / u64::from(rate.max(1)));
        self.delay + self.rate.map_or(Duration::ZERO, wait)
    }

    fn fits(&self, listed: &Listed) -> bool {
        let Some(text) = &self.reason else { return true };
        let Ok(envelope) = &listed.envelope else { return false };
        envelope.state == State::Dead && envelope.reason.as_ref().is_some_and(|reason| reason.contains(text))
    }
}

// === impl Admin ===

impl Admin {
    /// Gives single dead letters another life. One whose own expiry is not after its new due time stays dead.
    ///
    /// # Errors
    /// Redis cannot be used; some may be back then. Safe to repeat.
    pub async fn replay_ids(
        &self,
        topic: &Topic,
        targets: &[Target],
        delay: Duration,
    ) -> Result<Replayed, Error> {
        self.client.layout().await?;
        let mut shards: BTreeMap<ShardId, Vec<MessageId>> = BTreeMap::new();
        for target in targets {
            for place in target.places(&self.client) {
                shards.entry(place).or_default().push(target.id.clone());
            }
        }
        let mut replayed = Replayed::default();
        for (shard, ids) in shards {
            for some in ids.chunks(MAX_IDS_A_CALL) {
                replayed.add(self.client.replay_call(shard, topic, delay, some).await?);
            }
        }
        Ok(replayed)
    }

    /// Gives dead letters another life, the oldest first. One whose own expiry is not after its new due time stays dead.
    ///
    /// # Errors
    /// Redis cannot be used; some may be back then. Safe to repeat.
    pub async fn replay(&self, topic: &Topic, options: &ReplayOptions) -> Result<Replayed, Error> {
        let mut replayed = Replayed::default();
        let mut shards = self.every_shard().await?;
        while let Some(shard) = shards.next() {
            self.replay_shard(shard, topic, options, &mut replayed).await?;
        }
        Ok(replayed)
    }

    async fn replay_shard(
        &self,
        shard: ShardId,
        topic: &Topic,
        options: &ReplayOptions,
        replayed: &mut Replayed,
    ) -> Result<(), Error> {
        let most = options.most.unwrap_or(u64::MAX);
        let query = Query { topic, state: ListState::Dead { newest_first: false }, to: options.died.to };
        let mut next = Some(Cursor::from(options.died.from));
        while let Some(cursor) = next.filter(|_| replayed.replayed < most) {
            let page = self.client.list_call(shard, query, &cursor, MAX_IDS_A_CALL as u16).await?;
            let fitting = page.messages.into_iter().filter(|listed| options.fits(listed));
            let ids: Vec<MessageId> = fitting.map(|listed| listed.id).collect();
            let mut ids = ids.as_slice();
            while !ids.is_empty() && replayed.replayed < most {
                let left = usize::try_from(most - replayed.replayed).unwrap_or(usize::MAX);
                let (some, rest) = ids.split_at(options.step().min(left).min(ids.len()));
                let delay = options.delay_behind(replayed.replayed);
                replayed.add(self.client.replay_call(shard, topic, delay, some).await?);
                ids = rest;
            }
            next = page.next;
        }
        Ok(())
    }
}
