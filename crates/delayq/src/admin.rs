//! The admin: inspects and operates a deployment.

mod audit;
mod deleting;
mod deployment;
mod finding;
mod history;
mod horizon;
mod identifying;
mod key_scan;
mod listing;
mod namespaces;
mod nodes;
mod notes;
mod policies;
mod promoting;
mod replaying;
mod seeing;
mod shards;
mod signing;
mod training;
mod walking;
mod workers;

pub use audit::{
    Audit, AuditAdmin, Drift, Finding, FindingKind, Repaired, Sweep, Swept, SweptFault, SweptMending,
    Uncounted,
};
pub use deleting::TopicDeletion;
pub use history::History;
pub use horizon::Horizon;
pub use listing::{ListCursor, ListedPage, Listing};
pub use nodes::NodesAdmin;
pub use promoting::PromoteOptions;
pub use replaying::ReplayOptions;
pub use seeing::{Seen, Unseen};
pub use shards::{GrowthReport, GrowthStep, MoveReport, MoveStep, ShardsAdmin};
pub use training::Trained;
pub use walking::{Walk, WalkCursor};

pub use crate::link::{SentinelFacts, SentinelReport, sentinel_rule};
pub use crate::role::Role;
pub use crate::server::{NodeFacts, ServerFacts};
pub use delayq_core::codec::Codec;
pub use delayq_core::durability::Durability;
pub use delayq_core::policy::{Form, Policy, PolicySetting, Repeats, Setting};
pub use delayq_core::verbs::count::Numbers;
pub use delayq_core::verbs::deployment::ShardLayout;
pub use delayq_core::verbs::histogram::Slot;
pub use delayq_core::verbs::history::{Happening, HistoryEvent, Next};
pub use delayq_core::verbs::list::{ListState, Listed};
pub use delayq_core::verbs::overview::{Older, Overview};
pub use delayq_core::verbs::promote::{Promotable, Promoted};
pub use delayq_core::verbs::purge::Purged;
pub use delayq_core::verbs::replay::{ReplayTerms, Replayed};

use crate::calls::Calls;
use crate::client::Client;
use crate::error::Error;
use crate::topology::NodeMap;
use delayq_core::id::{NodeName, Topic};
use delayq_core::shard::ShardId;
use delayq_core::time::{OddTime, UnixMillis};
use delayq_core::verbs::cursor::Cursor;
use delayq_core::verbs::{count, histogram, overview, purge};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// An operator's view of a deployment.
#[derive(Clone, Debug)]
pub struct Admin {
    client: Client,
    /// The nodes whose shards are left out.
    without: Arc<BTreeSet<NodeName>>,
    /// Shards that are left out because no answer came.
    unseen: Arc<BTreeSet<ShardId>>,
}

/// A range of times, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeRange {
    /// Start of the range.
    pub from: UnixMillis,
    /// End of the range.
    pub to: UnixMillis,
}

/// The messages that a purge removes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PurgeWhat {
    /// Delayed messages that are due in this range.
    Delayed(TimeRange),
    /// Ready messages.
    Ready,
    /// Dead letters that died in this range.
    Dead(TimeRange),
}

// === impl TimeRange ===

impl TimeRange {
    /// All times.
    pub const ALL: Self = Self { from: UnixMillis::new(0), to: UnixMillis::MAX };

    /// Refuses ends that are most likely in seconds or microseconds.
    fn check(self) -> Result<(), OddTime> {
        self.from.check("the range's first time")?;
        self.to.check("the range's last time")
    }
}

// === impl Admin ===

impl Admin {
    /// Creates the admin of a deployment.
    pub fn new(client: Client) -> Self {
        Self { client, without: Arc::default(), unseen: Arc::default() }
    }

    /// Returns the client.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns an admin that leaves out the shards of these nodes, which are lost for good. Counts, listings and walks
    /// skip the shards, and do not ask the nodes. Settings are still written to every shard.
    ///
    /// # Errors
    /// [`Error::Deployment`]: the deployment has no such node, or no other node.
    pub fn without(&self, nodes: impl IntoIterator<Item = NodeName>) -> Result<Self, Error> {
        let without: BTreeSet<NodeName> = nodes.into_iter().collect();
        let map = self.client.calls.nodes().map();
        let all: Vec<&NodeName> = map.into_iter().flat_map(NodeMap::nodes).map(|node| &node.name).collect();
        if let Some(unknown) = without.iter().find(|node| !all.contains(node)) {
            let all: Vec<&str> = all.into_iter().map(NodeName::as_str).collect();
            let what = match all.is_empty() {
                true => "it is not kept by several Redises".to_owned(),
                false => format!("its nodes are {}", all.join(", ")),
            };
            return Err(Error::Deployment(format!("there is no node {unknown} to leave out: {what}")));
        }
        if !without.is_empty() && without.len() == all.len() {
            return Err(Error::Deployment("every node is to be left out".to_owned()));
        }
        Ok(Self { without: Arc::new(without), ..self.clone() })
    }

    fn leaves_out(&self, shard: ShardId) -> bool {
        let of_a_node =
            || self.client.calls.nodes().name(shard).is_some_and(|node| self.without.contains(node));
        self.unseen.contains(&shard) || (!self.without.is_empty() && of_a_node())
    }

    /// Counts the messages of a topic, summed over all shards. Each shard is counted at a separate instant.
    ///
    /// # Errors
    /// Redis cannot be used.
    pub async fn count(&self, topic: &Topic) -> Result<Numbers, Error> {
        let mut total = Numbers::default();
        let mut shards = self.every_shard().await?;
        while let Some(shard) = shards.next() {
            total.add(&self.count_in(shard, topic).await?);
        }
        Ok(total)
    }

    async fn count_in(&self, shard: ShardId, topic: &Topic) -> Result<Numbers, Error> {
        let (mut numbers, mut step) = (Numbers::default(), Some(0));
        while let Some(at) = step {
            let read = |reply| count::read(reply, &mut numbers);
            step = self.client.calls.ask(count::request(shard, topic, at), read).await?;
        }
        Ok(numbers)
    }

    /// Returns every shard that is not left out, including shards that are added meanwhile.
    async fn every_shard(&self) -> Result<EveryShard<'_>, Error> {
        self.client.calls.layout().await?;
        Ok(EveryShard { admin: self, next: 0 })
    }

    /// Returns every topic that ever had a message, by name.
    ///
    /// # Errors
    /// Redis cannot be used.
    pub async fn topics(&self) -> Result<Vec<Topic>, Error> {
        let (mut topics, mut shards) = (BTreeSet::new(), self.every_shard().await?);
        while let Some(shard) = shards.next() {
            topics.extend(topics_in(&self.client.calls, shard).await?);
        }
        Ok(topics.into_iter().collect())
    }

    /// Counts the delayed messages of a topic by due time, in intervals of `width` (a minute to an hour, a divisor of
    /// an hour). Empty intervals are left out.
    ///
    /// # Errors
    /// Redis cannot be used, or the width is invalid.
    pub async fn histogram(
        &self,
        topic: &Topic,
        range: TimeRange,
        width: Duration,
    ) -> Result<Vec<Slot>, Error> {
        range.check()?;
        let mut slots: BTreeMap<UnixMillis, u64> = BTreeMap::new();
        // The script excludes the end of the range.
        let end = UnixMillis::new(range.to.get() + 1);
        let mut shards = self.every_shard().await?;
        while let Some(shard) = shards.next() {
            let mut from = Some(range.from);
            while let Some(at) = from {
                let (some, next) = self
                    .client
                    .calls
                    .ask(histogram::request(shard, topic, (at, end), width), histogram::read)
                    .await?;
                some.into_iter().for_each(|slot| *slots.entry(slot.start).or_default() += slot.count);
                from = next;
            }
        }
        Ok(slots.into_iter().map(|(start, count)| Slot { start, count }).collect())
    }

    /// Removes messages of a topic, in bounded steps. After each step, `progress` gets the number removed so far.
    ///
    /// # Errors
    /// Redis cannot be used; some messages are removed then. A repeat continues.
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
        range.check()?;
        let mut purged = Purged::default();
        let mut shards = self.every_shard().await?;
        while let Some(shard) = shards.next() {
            let mut cursor = Some(Cursor::from(range.from));
            while let Some(at) = cursor {
                let (some, next) = self
                    .client
                    .calls
                    .ask(purge::request(shard, topic, (state, range.to), &at), purge::read)
                    .await?;
                purged.add(some);
                progress(purged.purged);
                cursor = next;
            }
        }
        Ok(purged)
    }
}

/// Returns the topics in one shard.
async fn topics_in(calls: &Calls, shard: ShardId) -> Result<BTreeSet<Topic>, Error> {
    let (mut topics, mut from) = (BTreeSet::new(), None);
    loop {
        let call = overview::topics(shard, from);
        let page = calls.ask(call, overview::read_topics).await?;
        topics.extend(page.topics.into_iter().map(|here| here.topic));
        from = page.next;
        if from.is_none() {
            return Ok(topics);
        }
    }
}

/// Returns one shard after the other; each step includes newly added shards.
struct EveryShard<'a> {
    admin: &'a Admin,
    next: u16,
}

// === impl EveryShard ===

impl EveryShard<'_> {
    fn next(&mut self) -> Option<ShardId> {
        loop {
            let shard = ShardId::new(self.next);
            if !self.admin.client.shards().contains(shard) {
                return None;
            }
            self.next += 1;
            if !self.admin.leaves_out(shard) {
                return Some(shard);
            }
        }
    }
}
