//! The admin: looking at what is stored, and what operators do to it.

mod audit;
mod finding;
mod queues;
mod repair;
mod stuck;

pub use audit::{Audit, Uncounted};
pub use repair::Repaired;
pub use stuck::{Drift, Finding, FindingKind};

use crate::{
    Client, Error, ListState, Listed, MAX_IDS_A_CALL, MessageId, Numbers, Overview, Policy, PolicySetting,
    ShardCount, ShardId, Slot, State, Target, Topic, UnixMillis, policy::TopicSettings, verbs::Query,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// An operator's view of a deployment.
#[derive(Clone, Debug)]
pub struct Admin {
    client: Client,
}

/// A range of times, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeRange {
    /// The first.
    pub from: UnixMillis,
    /// The last.
    pub to: UnixMillis,
}

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

/// What a purge throws away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PurgeWhat {
    /// What is delayed and due in this range.
    Delayed(TimeRange),
    /// What is ready.
    Ready,
    /// What died in this range.
    Dead(TimeRange),
}

// === impl TimeRange ===

impl TimeRange {
    /// All times.
    pub const ALL: Self = Self { from: UnixMillis::new(0), to: UnixMillis::MAX };
}

// === impl ReplayOptions ===

impl Default for ReplayOptions {
    fn default() -> Self {
        Self { died: TimeRange::ALL, reason: None, most: None, delay: Duration::ZERO, rate: None }
    }
}

// === impl Admin ===

impl Admin {
    /// The admin of a deployment.
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// The deployment.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The numbers of a topic, summed over all shards. Each shard is counted at its own instant.
    ///
    /// # Errors
    /// Redis cannot be used.
    pub async fn count(&self, topic: &Topic) -> Result<Numbers, Error> {
        let mut total = Numbers::default();
        let mut shards = self.every_shard().await?;
        while let Some(shard) = shards.next() {
            total.add(&self.client.count_call(shard, topic).await?);
        }
        Ok(total)
    }

    /// What every shard says of itself.
    ///
    /// # Errors
    /// Redis cannot be used.
    pub async fn overview(&self) -> Result<Vec<(ShardId, Overview)>, Error> {
        let (mut all, mut shards) = (Vec::new(), self.every_shard().await?);
        loop {
            let some: Vec<ShardId> = std::iter::from_fn(|| shards.next()).collect();
            if some.is_empty() {
                return Ok(all);
            }
            let overviews = self.client.overview(&some).await;
            for (shard, overview) in some.into_iter().zip(overviews) {
                all.push((shard, overview?));
            }
        }
    }

    /// Every shard, those that a growth adds meanwhile included.
    async fn every_shard(&self) -> Result<EveryShard<'_>, Error> {
        self.client.layout().await?;
        Ok(EveryShard { client: &self.client, next: 0 })
    }

    /// Every topic that anything was ever put into, by name.
    ///
    /// # Errors
    /// Redis cannot be used.
    pub async fn topics(&self) -> Result<Vec<Topic>, Error> {
        let mut topics = BTreeSet::new();
        for (_, overview) in self.overview().await? {
            for name in overview.topics {
                topics.insert(Topic::new(name)?);
            }
        }
        Ok(topics.into_iter().collect())
    }

    /// How many messages of a topic become due when, in intervals of `width` (a minute to an hour, a divisor of an
    /// hour); empty intervals are left out.
    ///
    /// # Errors
    /// Redis cannot be used, or the width is none.
    pub async fn histogram(
        &self,
        topic: &Topic,
        range: TimeRange,
        width: Duration,
    ) -> Result<Vec<Slot>, Error> {
        let mut slots: BTreeMap<UnixMillis, u64> = BTreeMap::new();
        let mut shards = self.every_shard().await?;
        while let Some(shard) = shards.next() {
            let mut from = Some(range.from);
            while let Some(at) = from {
                let (some, next) = self.client.histogram_call(shard, topic, (at, range.to), width).await?;
                some.into_iter().for_each(|slot| *slots.entry(slot.start).or_default() += slot.count);
                from = next;
            }
        }
        Ok(slots.into_iter().map(|(start, count)| Slot { start, count }).collect())
    }

    /// Sets the policy of a topic. A setting that is `None` goes back to its default.
    ///
    /// # Errors
    /// Redis cannot be used; some shards may have it then. Safe to repeat.
    pub async fn set_policy(&self, topic: &Topic, policy: &Policy) -> Result<(), Error> {
        self.configure(topic, |_| policy.settings()).await
    }

    /// Changes a topic's policy: what `set` has is set, what `reset` names goes back to its default, and the rest
    /// stays as it is.
    ///
    /// # Errors
    /// Redis cannot be used; some shards may have it then. Safe to repeat.
    pub async fn change_policy(
        &self,
        topic: &Topic,
        set: &Policy,
        reset: &[PolicySetting],
    ) -> Result<(), Error> {
        match set.changes(reset) {
            none if none.is_empty() => Ok(()),
            changes => self.configure(topic, |_| changes.clone()).await,
        }
    }

    /// Stops a topic from being reserved: what becomes due gets ready, and waits there.
    ///
    /// # Errors
    /// Redis cannot be used; some shards may be paused then. Safe to repeat.
    pub async fn pause(&self, topic: &Topic) -> Result<(), Error> {
        self.configure(topic, |_| vec![("paused", b"1".to_vec())]).await
    }

    /// Lets a paused topic go on.
    ///
    /// # Errors
    /// Redis cannot be used; some shards may go on then. Safe to repeat.
    pub async fn resume(&self, topic: &Topic) -> Result<(), Error> {
        self.configure(topic, |_| vec![("paused", Vec::new())]).await
    }

    /// Bounds how many messages of a topic are reserved a second, over all shards: each gets its part. `None`: no
    /// bound.
    ///
    /// # Errors
    /// Redis cannot be used; some shards may have it then. Safe to repeat.
    pub async fn set_rate(&self, topic: &Topic, a_second: Option<f64>) -> Result<(), Error> {
        let part = |rate: f64, shards: ShardCount| format!("{}", rate / f64::from(shards.get())).into_bytes();
        self.configure(topic, |shards| {
            vec![("rate", a_second.map_or_else(Vec::new, |rate| part(rate, shards)))]
        })
        .await
    }

    /// Sets settings of a topic in every shard. A growth that is met on the way changes how many there are.
    async fn configure(
        &self,
        topic: &Topic,
        settings: impl Fn(ShardCount) -> TopicSettings,
    ) -> Result<(), Error> {
        self.client.layout().await?;
        loop {
            let count = self.client.shards();
            let shards: Vec<ShardId> = count.shards().collect();
            self.client.configure_call(&shards, topic, &settings(count)).await?;
            if self.client.shards() == count {
                return Ok(());
            }
        }
    }

    /// Gives single dead letters another life: how many came back.
    ///
    /// # Errors
    /// Redis cannot be used; some may be back then. Safe to repeat.
    pub async fn replay_ids(&self, topic: &Topic, targets: &[Target], delay: Duration) -> Result<u64, Error> {
        self.client.layout().await?;
        let mut shards: BTreeMap<ShardId, Vec<MessageId>> = BTreeMap::new();
        for target in targets {
            for place in target.places(&self.client) {
                shards.entry(place).or_default().push(target.id.clone());
            }
        }
        let mut replayed = 0;
        for (shard, ids) in shards {
            for some in ids.chunks(MAX_IDS_A_CALL) {
                replayed += self.client.replay_call(shard, topic, delay, some).await?;
            }
        }
        Ok(replayed)
    }

    /// Gives dead letters another life, the oldest first: how many came back.
    ///
    /// # Errors
    /// Redis cannot be used; some may be back then. Safe to repeat.
    pub async fn replay(&self, topic: &Topic, options: &ReplayOptions) -> Result<u64, Error> {
        let mut replayed = 0;
        let mut shards = self.every_shard().await?;
        while let Some(shard) = shards.next() {
            let left = options.most.map_or(u64::MAX, |most| most - replayed);
            replayed += self.replay_shard(shard, topic, options, (replayed, left)).await?;
        }
        Ok(replayed)
    }

    async fn replay_shard(
        &self,
        shard: ShardId,
        topic: &Topic,
        options: &ReplayOptions,
        (before, left): (u64, u64),
    ) -> Result<u64, Error> {
        let (mut replayed, mut next) = (0, Some((options.died.from, 0)));
        let state = ListState::Dead { newest_first: false };
        while let Some(at) = next.filter(|_| replayed < left) {
            let query = Query { topic, state, from: at.0, to: options.died.to };
            let found = self.client.list_call(shard, query, at.1, MAX_IDS_A_CALL as u16).await?;
            let chosen: Vec<Listed> = found
                .messages
                .into_iter()
                .filter(|listed| options.reason.as_ref().is_none_or(|text| reason_has(listed, text)))
                .take(usize::try_from(left - replayed).unwrap_or(usize::MAX))
                .collect();
            // What is replayed leaves the list: the next page begins behind what stays at its first time.
            let stayed = found.next.map(|(from, offset)| {
                let gone = chosen.iter().filter(|listed| died_at(listed) == Some(from)).count();
                (from, offset.saturating_sub(gone as u64))
            });
            let ids: Vec<MessageId> = chosen.into_iter().map(|listed| listed.id).collect();
            let step =
                options.rate.map_or(ids.len().max(1), |rate| (rate as usize / 10).clamp(1, MAX_IDS_A_CALL));
            for some in ids.chunks(step) {
                let wait = options.rate.map_or(Duration::ZERO, |rate| {
                    Duration::from_millis((before + replayed) * 1000 / u64::from(rate.max(1)))
                });
                replayed += self.client.replay_call(shard, topic, options.delay + wait, some).await?;
            }
            next = stayed;
        }
        Ok(replayed)
    }

    /// Throws messages of a topic away, in bounded steps: how many went. `progress` hears of each step.
    ///
    /// # Errors
    /// Redis cannot be used; some are gone then. Repeating it goes on.
    pub async fn purge(
        &self,
        topic: &Topic,
        what: PurgeWhat,
        mut progress: impl FnMut(u64),
    ) -> Result<u64, Error> {
        let (state, range) = match what {
            PurgeWhat::Delayed(range) => ("delayed", range),
            PurgeWhat::Ready => ("ready", TimeRange::ALL),
            PurgeWhat::Dead(range) => ("dead", range),
        };
        let mut purged = 0;
        let mut shards = self.every_shard().await?;
        while let Some(shard) = shards.next() {
            let mut more = true;
            while more {
                let (some, again) =
                    self.client.purge_step(shard, topic, state, (range.from, range.to)).await?;
                more = again;
                purged += some;
                progress(purged);
            }
        }
        Ok(purged)
    }
}

/// Hands out one shard after the other, as many as are known at each step.
struct EveryShard<'a> {
    client: &'a Client,
    next: u16,
}

// === impl EveryShard ===

impl EveryShard<'_> {
    fn next(&mut self) -> Option<ShardId> {
        let shard = ShardId::new(self.next);
        let there = self.client.shards().contains(shard);
        self.next += u16::from(there);
        there.then_some(shard)
    }
}

fn died_at(listed: &Listed) -> Option<UnixMillis> {
    listed.envelope.as_ref().ok().map(|envelope| envelope.at)
}

fn reason_has(listed: &Listed, text: &str) -> bool {
    let Ok(envelope) = &listed.envelope else { return false };
    envelope.state == State::Dead && envelope.reason.as_ref().is_some_and(|reason| reason.contains(text))
}
