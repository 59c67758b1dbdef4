//! The admin: inspects and operates a deployment.

mod audit;
mod counting;
mod deployment;
mod dictionaries;
mod gateways;
mod groups;
mod identifying;
mod key_scan;
mod listing;
mod namespaces;
mod nodes;
mod operating;
mod promoting;
mod seeing;
mod selecting;
mod shards;
mod topic;
mod walking;
mod workers;

pub use audit::{
    Audit, AuditAdmin, Drift, Finding, FindingKind, Repaired, Sweep, Swept, SweptFault, SweptMending,
    Uncounted,
};
pub use dictionaries::{DictionariesAdmin, Trained};
pub use gateways::{GatewaysAdmin, LoggedAction};
pub use listing::{ListCursor, ListedPage, Listing};
pub use nodes::NodesAdmin;
pub use operating::{OperationsAdmin, Step};
pub use promoting::PromoteOptions;
pub use seeing::{Seen, Unseen};
pub use selecting::{Cut, SelectCursor, SelectState, Selected, Selection};
pub use shards::{GrowthReport, GrowthStep, MoveReport, MoveStep, ShardsAdmin};
pub use topic::{History, Horizon, PurgeWhat, ReplayOptions, TopicAdmin, TopicDeletion};
pub use walking::{Walk, WalkCursor};

pub use crate::link::{SentinelFacts, SentinelReport, sentinel_rule};
pub use crate::role::Role;
pub use crate::server::{NodeFacts, ServerFacts};
pub use delayq_core::codec::Codec;
pub use delayq_core::durability::Durability;
pub use delayq_core::policy::{
    Form, GroupFailed, GroupOrder, GroupRate, Policy, PolicySetting, RateUnit, Repeats, Setting,
};
pub use delayq_core::verbs::count::Numbers;
pub use delayq_core::verbs::deployment::ShardLayout;
pub use delayq_core::verbs::histogram::Slot;
pub use delayq_core::verbs::history::{Happening, HistoryEvent, Next};
pub use delayq_core::verbs::list::{ListState, Listed};
pub use delayq_core::verbs::operate::{Acted, Action, Tag};
pub use delayq_core::verbs::overview::{Older, Overview};
pub use delayq_core::verbs::pause::PausedGroup;
pub use delayq_core::verbs::promote::{Promotable, Promoted};
pub use delayq_core::verbs::purge::Purged;
pub use delayq_core::verbs::replay::{ReplayTerms, Replayed};
pub use delayq_core::verbs::swap::NoteVersion;

use crate::calls::Calls;
use crate::client::Client;
use crate::error::Error;
use crate::topology::NodeMap;
use delayq_core::id::{NodeName, Topic};
use delayq_core::shard::ShardId;
use delayq_core::time::{OddTime, UnixMillis};
use delayq_core::verbs::overview;
use std::collections::BTreeSet;
use std::sync::Arc;

/// An operator's view of a deployment.
///
/// Calls about one part of a deployment are methods of a handle, which is cheap to create and to copy:
/// [`topic`](Self::topic), [`shards`](Self::shards), [`nodes`](Self::nodes), [`audit`](Self::audit),
/// [`dictionaries`](Self::dictionaries), [`gateways`](Self::gateways) and [`operations`](Self::operations).
///
/// ```no_run
/// # async fn example(client: delayq::Client) -> Result<(), delayq::Error> {
/// let admin = delayq::Admin::new(client);
/// for topic in admin.topics().await? {
///     println!("{topic}: {} pending", admin.topic(&topic).count().await?.pending());
/// }
/// # Ok(())
/// # }
/// ```
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
                true => "the deployment has a single Redis".to_owned(),
                false => format!("its nodes are {}", all.join(", ")),
            };
            return Err(Error::Deployment(format!("no node {unknown} to leave out: {what}")));
        }
        if !without.is_empty() && without.len() == all.len() {
            return Err(Error::Deployment("at least one node must remain".to_owned()));
        }
        Ok(Self { without: Arc::new(without), ..self.clone() })
    }

    fn leaves_out(&self, shard: ShardId) -> bool {
        let of_a_node =
            || self.client.calls.nodes().name(shard).is_some_and(|node| self.without.contains(node));
        self.unseen.contains(&shard) || (!self.without.is_empty() && of_a_node())
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
