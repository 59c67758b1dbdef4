//! The admin: looking at what is stored, and what operators do to it.

mod audit;
mod deleting;
mod finding;
mod queues;
mod repair;
mod replaying;
mod stuck;

pub use audit::{Audit, Uncounted};
pub use deleting::TopicDeletion;
pub use repair::Repaired;
pub use replaying::ReplayOptions;
pub use stuck::{Drift, Finding, FindingKind};

use crate::{
    Client, Error, Numbers, Overview, Policy, PolicySetting, Purged, ShardCount, ShardId, Slot, Topic,
    UnixMillis, policy::TopicSettings, verbs::Cursor,
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
        let (mut topics, mut shards) = (BTreeSet::new(), self.every_shard().await?);
        while let Some(shard) = shards.next() {
            topics.extend(self.client.topics(shard).await?.into_iter().map(|here| here.topic));
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

    /// Throws messages of a topic away, in bounded steps. `progress` hears of each step how many went so far.
    ///
    /// # Errors
    /// Redis cannot be used; some are gone then. Repeating it goes on.
    pub async fn purge(
        &self,
        topic: &Topic,
        what: PurgeWhat,
        mut progress: impl FnMut(u64),
    ) -> Result<Purged, Error> {
        let (state, range) = match what {
            PurgeWhat::Delayed(range) => ("delayed", range),
            PurgeWhat::Ready => ("ready", TimeRange::ALL),
            PurgeWhat::Dead(range) => ("dead", range),
        };
        let mut purged = Purged::default();
        let mut shards = self.every_shard().await?;
        while let Some(shard) = shards.next() {
            let mut cursor = Some(Cursor::from(range.from));
            while let Some(at) = cursor {
                let (some, next) = self.client.purge_step(shard, (topic, state, range.to), &at).await?;
                purged.add(some);
                progress(purged.purged);
                cursor = next;
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
