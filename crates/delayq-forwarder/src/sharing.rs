//! The shards that this forwarder reserves from: all of them in competition with others, or those that the plan gives it.
//!
//! Both are safe, because a leased message is given to nobody else; the plan only saves calls that find nothing. So a lost
//! shard is confirmed at once, while its messages are still under way. Without an answer from etcd a forwarder reserves from
//! every shard, because it could not learn that an owner has died.

use crate::codes::PLAN_UNREACHABLE;
use delayq::Client;
use delayq::protocol::{Growth, ShardId};
use delayq_cluster::{Cluster, ClusterConfig, Handle, Ownership, OwnershipChange, Trust};
use delayq_service::Fault;
use delayq_service::codes::TASK_ENDED;
use std::collections::BTreeSet;
use std::time::Duration;

/// How long leaving the fleet may take; after that the lease expires by itself.
const LEAVE_WITHIN: Duration = Duration::from_secs(1);

/// This forwarder's share.
pub(crate) enum Share {
    /// Every shard, including those that a growth adds.
    All(Growth),
    /// Those of the plan.
    Planned(Box<Planned>),
}

pub(crate) struct Planned {
    all: Growth,
    handle: Handle,
    ownership: Ownership,
    owned: BTreeSet<ShardId>,
    trust: Trust,
}

// === impl Share ===

impl Share {
    /// Reserves from every shard.
    pub(crate) fn all(client: &Client) -> Self {
        Self::All(client.growth())
    }

    /// Joins the forwarders that share by the plan, at once or when etcd answers.
    ///
    /// # Errors
    /// [`PLAN_UNREACHABLE`]
    pub(crate) async fn join(fleet: ClusterConfig, client: &Client) -> Result<Self, Fault> {
        let all = client.growth();
        let fleet = ClusterConfig { shards: all.shards(), ..fleet };
        let joined = Cluster::start(fleet).await;
        let (handle, ownership) = joined
            .map_err(|error| Fault::new(&PLAN_UNREACHABLE, "cannot join the forwarders").because(error))?;
        let (owned, trust) = (BTreeSet::new(), handle.trust());
        Ok(Self::Planned(Box::new(Planned { all, handle, ownership, owned, trust })))
    }

    /// The shards to reserve from now.
    pub(crate) fn shards(&self) -> Vec<ShardId> {
        match self {
            Self::All(all) => all.shards().shards().collect(),
            Self::Planned(planned) => planned.shards(),
        }
    }

    /// Waits until the shards change, and returns them. Cancel safe.
    ///
    /// # Errors
    /// A part of the membership ended by itself, which is a bug.
    pub(crate) async fn changed(&mut self) -> Result<Vec<ShardId>, Fault> {
        match self {
            Self::All(all) => Ok(all.next().await.shards().collect()),
            Self::Planned(planned) => planned.changed().await,
        }
    }

    /// Gives the shards up.
    pub(crate) async fn leave(&self) {
        if let Self::Planned(planned) = self
            && !planned.handle.leave(LEAVE_WITHIN).await
        {
            tracing::warn!(
                "cannot tell etcd that this forwarder leaves: its shards move when its lease expires"
            );
        }
    }
}

// === impl Planned ===

impl Planned {
    fn shards(&self) -> Vec<ShardId> {
        match self.trust {
            Trust::Joining | Trust::Degraded { .. } | Trust::Lost { .. } => {
                self.all.shards().shards().collect()
            }
            _ => self.owned.iter().copied().collect(),
        }
    }

    async fn changed(&mut self) -> Result<Vec<ShardId>, Fault> {
        let before = self.shards();
        loop {
            let change = tokio::select! {
                change = self.ownership.next() => match change {
                    // A member that has left gets no more changes.
                    None => return std::future::pending().await,
                    change => change,
                },
                shards = self.all.next() => {
                    // The plan assigns the new shards, to this forwarder or to another one.
                    self.handle.set_shards(shards);
                    None
                }
                name = self.handle.failed() => {
                    return Err(Fault::new(&TASK_ENDED, format!("the membership's {name} ended by itself")));
                }
            };
            if let Some(change) = change {
                self.follow(&change);
                self.ownership.confirm(&change.lost);
            }
            let now = self.shards();
            if now != before {
                tracing::info!(
                    shards = now.len(),
                    trust = self.trust.name(),
                    "the shards of this forwarder have changed"
                );
                return Ok(now);
            }
        }
    }

    fn follow(&mut self, change: &OwnershipChange) {
        for lost in &change.lost {
            self.owned.remove(&lost.shard);
        }
        self.owned.extend(change.gained.iter().copied());
        self.trust = change.trust;
    }
}
