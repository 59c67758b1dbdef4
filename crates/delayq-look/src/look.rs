//! One look at a deployment. A part that does not answer is named, and hides no other part.

mod parts;
mod want;

pub use parts::{Servers, Shard, Shards, Topics};
pub use want::{Want, Which};

use crate::deployment::Deployment;
use delayq::admin::Numbers;
use delayq::{Error, UnixMillis};
use delayq_cluster::{EndpointHealth, Overview as Fleet};
use delayq_service::Fault;
use delayq_service::codes::redis::{NO_DEPLOYMENT, cause_of};

/// The parts of a deployment at one moment. A part that was not wanted is `None`.
#[derive(Debug)]
pub struct Look {
    /// The deployment, limited to the shards that answer.
    pub part: Deployment,
    /// The Redis servers, or the error of all.
    pub servers: Option<Result<Servers, Error>>,
    /// The shards, or the error if no shard answers.
    pub shards: Result<Shards, Error>,
    /// The topics; `None` also if no shard answers.
    pub topics: Option<Result<Topics, Error>>,
    /// The timers, or the error of etcd.
    pub fleet: Option<Result<Fleet, Fault>>,
    /// The members of etcd, or the fault of the configuration.
    pub etcd: Option<Result<Vec<EndpointHealth>, Fault>>,
    /// A sentence that names the other deployments in this Redis.
    pub others: Option<String>,
}

// === impl Look ===

impl Look {
    /// Takes a look. Never fails; each part may.
    pub async fn take(deployment: &Deployment, want: Want<'_>) -> Self {
        // In turn: a handshake with etcd may keep the processor for longer than Redis may take to answer.
        let (part, shards, topics) = parts::stored(deployment, want).await;
        let servers = parts::servers(deployment, want).await;
        let fleet = parts::fleet(deployment, want).await;
        let etcd = parts::etcd(deployment, want).await;
        let others = match &shards {
            Err(error) if want.others && cause_of(error) == Some(&NO_DEPLOYMENT) => deployment.others().await,
            _ => None,
        };
        Self { part, servers, shards, topics, fleet, etcd, others }
    }

    /// Redis's clock, from the shards; zero without an answer.
    pub fn now(&self) -> UnixMillis {
        let shards = self.shards.iter().flat_map(|shards| &shards.seen);
        shards.map(|shard| shard.overview.now.millis()).max().unwrap_or(UnixMillis::new(0))
    }

    /// True if some shards answer and others do not.
    pub fn is_partial(&self) -> bool {
        self.shards.as_ref().is_ok_and(|shards| !shards.unseen.is_empty())
    }

    /// The missing parts, a line each.
    pub fn missing(&self) -> Vec<String> {
        let unseen = self.shards.iter().flat_map(|shards| shards.unseen.iter().cloned());
        let topics = self.topics.iter().filter_map(|topics| topics.as_ref().err());
        let fleet = self.fleet.iter().filter_map(|fleet| fleet.as_ref().err());
        let topics = topics.map(|error| format!("topics: {error}"));
        unseen.chain(topics).chain(fleet.map(|fault| format!("what etcd has: {}", fault.message()))).collect()
    }
}

/// The sum of all numbers.
pub fn total<'n>(numbers: impl IntoIterator<Item = &'n Numbers>) -> Numbers {
    let mut total = Numbers::default();
    numbers.into_iter().for_each(|numbers| total.add(numbers));
    total
}
