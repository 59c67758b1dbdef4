//! Which shards this forwarder takes from: all of them, beside others who do so too, or those that the plan gives it.
//!
//! Both are safe: what one has leased no other is given. The plan only spares the calls that find nothing. So a loss is
//! confirmed at once, while messages of the shard are still under way, and a forwarder that etcd does not answer takes
//! from every shard until it does: nobody could tell it that the owner of one has died.

use crate::codes::PLAN_UNREACHABLE;
use delayq_cluster::{Cluster, ClusterConfig, Handle, Ownership, OwnershipChange, Trust};
use delayq_core::{Client, Growth, ShardId};
use delayq_service::{Fault, codes::TASK_ENDED};
use std::{collections::BTreeSet, time::Duration};

/// How long leaving the group may take; after it the lease runs out by itself.
const LEAVE_WITHIN: Duration = Duration::from_secs(1);

/// This forwarder's share.
pub(crate) enum Share {
    /// Every shard, also those that a growth adds.
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
    /// Takes from every shard.
    pub(crate) fn all(client: &Client) -> Self {
        Self::All(client.growth())
    }

    /// Joins the forwarders that share by the plan, at once or when etcd answers.
    ///
    /// # Errors
    /// [`PLAN_UNREACHABLE`]
    pub(crate) async fn join(group: ClusterConfig, client: &Client) -> Result<Self, Fault> {
        let all = client.growth();
        let group = ClusterConfig { shards: all.shards(), ..group };
        let joined = Cluster::start(group).await;
        let (handle, ownership) = joined
            .map_err(|error| Fault::new(&PLAN_UNREACHABLE, "cannot join the forwarders").because(error))?;
        let (owned, trust) = (BTreeSet::new(), handle.trust());
        Ok(Self::Planned(Box::new(Planned { all, handle, ownership, owned, trust })))
    }

    /// The shards to take from now.
    pub(crate) fn shards(&self) -> Vec<ShardId> {
        match self {
            Self::All(all) => all.shards().shards().collect(),
            Self::Planned(planned) => planned.shards(),
        }
    }

    /// Waits until the shards are others, and gives them. Safe to drop.
    ///
    /// # Errors
    /// A part of the membership ended by itself, which is a bug.
    pub(crate) async fn changed(&mut self) -> Result<Vec<ShardId>, Fault> {
        match self {
            Self::All(all) => Ok(all.next().await.shards().collect()),
            Self::Planned(planned) => planned.changed().await,
        }
    }

    /// Gives the shards to the others.
    pub(crate) async fn leave(&self) {
        if let Self::Planned(planned) = self
            && !planned.handle.leave(LEAVE_WITHIN).await
        {
            tracing::warn!(
                "etcd was not told that this forwarder leaves: its shards move when its lease has run out"
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
                    // Whoever has left is told nothing any more.
                    None => return std::future::pending().await,
                    change => change,
                },
                shards = self.all.next() => {
                    // The plan hands the new shards out, to this forwarder or to another one.
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
                tracing::info!(shards = now.len(), trust = self.trust.name(), "taking from other shards");
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
