//! Replays dead letters: by id, or all that match.

use super::TopicAdmin;
use crate::admin::TimeRange;
use crate::admin::listing::list_page;
use crate::calls::{Batch, scatter};
use crate::error::Error;
use crate::options::RATE;
use crate::setters::setters;
use delayq_core::envelope::State;
use delayq_core::limits::MAX_IDS_A_CALL;
use delayq_core::shard::ShardId;
use delayq_core::target::Target;
use delayq_core::verbs::cursor::Cursor;
use delayq_core::verbs::list::{ListState, Listed, Query};
use delayq_core::verbs::replay::{self, ReplayTerms, Replayed};
use std::time::Duration;

/// The selection of dead letters to replay, and the speed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReplayOptions {
    /// Dead letters that died in this range.
    pub died: TimeRange,
    /// Dead letters whose reason contains this text; `None`: all.
    pub reason: Option<String>,
    /// Maximum number to replay; `None`: all.
    pub max_messages: Option<u64>,
    /// Delay until the messages become ready.
    pub delay: Duration,
    /// Maximum number per second, at least 1: the messages become due one after the other; `None`: no limit.
    pub rate: Option<u32>,
}

// === impl ReplayOptions ===

impl Default for ReplayOptions {
    fn default() -> Self {
        Self { died: TimeRange::ALL, reason: None, max_messages: None, delay: Duration::ZERO, rate: None }
    }
}

impl ReplayOptions {
    setters! {
        died: TimeRange,
        reason: impl Into<String> => Some(reason.into()),
        max_messages: u64 => Some(max_messages),
        delay: Duration,
        rate: u32 => Some(rate),
    }

    /// Returns the number of messages in one call.
    fn step(&self) -> usize {
        self.rate.map_or(MAX_IDS_A_CALL, |rate| (rate as usize / 10).clamp(1, MAX_IDS_A_CALL))
    }

    /// Returns the delay of the messages after this number.
    fn delay_after(&self, replayed: u64) -> Duration {
        let wait = |rate: u32| Duration::from_millis(replayed * 1000 / u64::from(rate));
        self.delay + self.rate.map_or(Duration::ZERO, wait)
    }

    fn fits(&self, listed: &Listed) -> bool {
        let Some(text) = &self.reason else { return true };
        let Ok(envelope) = &listed.envelope else { return false };
        envelope.state == State::Dead && envelope.reason.as_ref().is_some_and(|reason| reason.contains(text))
    }
}

// === impl TopicAdmin ===

impl TopicAdmin<'_> {
    /// Replays single dead letters. A dead letter that expires at or before the new due time stays dead.
    ///
    /// # Errors
    /// Redis cannot be used; some messages may be replayed then. Safe to repeat.
    pub async fn replay_ids(self, targets: &[Target], delay: Duration) -> Result<Replayed, Error> {
        self.replay_each(targets, delay, None).await
    }

    /// Makes single dead letters ready again under new terms.
    ///
    /// # Errors
    /// Like [`Self::replay_ids`].
    pub async fn replay_renewed(self, targets: &[Target], terms: ReplayTerms) -> Result<Replayed, Error> {
        self.replay_each(targets, Duration::ZERO, Some(terms)).await
    }

    async fn replay_each(
        self,
        targets: &[Target],
        delay: Duration,
        terms: Option<ReplayTerms>,
    ) -> Result<Replayed, Error> {
        self.admin.client.calls.layout().await?;
        let calls = &self.admin.client.calls;
        let places = targets.iter().flat_map(|target| {
            calls.shared_layout().shards_of(target).into_iter().map(move |shard| (shard, target))
        });
        let places: Vec<(ShardId, &Target)> = places.collect();
        let keyed = places.iter().map(|(shard, target)| (*shard, target.stored().len())).collect();
        let request = |batch: &Batch<ShardId>| {
            replay::request(batch.key, self.topic, delay, terms, batch.items.iter().map(|&i| places[i].1))
        };
        let mut replayed = Replayed::default();
        let read = |batch: &Batch<ShardId>, reply| {
            replayed.add(replay::read(reply)?);
            Ok(vec![(); batch.items.len()])
        };
        let answers = scatter(calls, keyed, request, read).await;
        answers.into_iter().collect::<Result<Vec<()>, Error>>()?;
        Ok(replayed)
    }

    /// Replays dead letters, the oldest first. A dead letter that expires at or before the new due time stays dead.
    ///
    /// # Errors
    /// [`Error::Option`]: an option is outside the allowed range. Redis cannot be used; some messages may be replayed
    /// then. Safe to repeat.
    pub async fn replay(self, options: &ReplayOptions) -> Result<Replayed, Error> {
        options.died.check()?;
        if let Some(rate) = options.rate {
            RATE.check(rate)?;
        }
        let mut replayed = Replayed::default();
        let mut shards = self.admin.every_shard().await?;
        while let Some(shard) = shards.next() {
            self.replay_shard(shard, options, &mut replayed).await?;
        }
        Ok(replayed)
    }

    async fn replay_shard(
        self,
        shard: ShardId,
        options: &ReplayOptions,
        replayed: &mut Replayed,
    ) -> Result<(), Error> {
        let max = options.max_messages.unwrap_or(u64::MAX);
        let query =
            Query { topic: self.topic, state: ListState::Dead { newest_first: false }, to: options.died.to };
        let mut next = Some(Cursor::from(options.died.from));
        while let Some(cursor) = next.filter(|_| replayed.replayed < max) {
            let page =
                list_page(&self.admin.client.calls, shard, query, (&cursor, MAX_IDS_A_CALL as u16)).await?;
            let fitting = page.messages.into_iter().filter(|listed| options.fits(listed));
            let targets: Vec<Target> = fitting.map(|listed| listed.target()).collect();
            let mut targets = targets.as_slice();
            while !targets.is_empty() && replayed.replayed < max {
                let left = usize::try_from(max - replayed.replayed).unwrap_or(usize::MAX);
                let (some, rest) = targets.split_at(options.step().min(left).min(targets.len()));
                let delay = options.delay_after(replayed.replayed);
                let call = replay::request(shard, self.topic, delay, None, some);
                replayed.add(self.admin.client.calls.ask(call, replay::read).await?);
                targets = rest;
            }
            next = page.next;
        }
        Ok(())
    }
}
