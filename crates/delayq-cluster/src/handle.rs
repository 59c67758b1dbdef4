//! The handle of a membership: queries, steering, draining and leaving.

use crate::error::ClusterError;
use crate::etcd::Range;
use crate::keys::MemberId;
use crate::membership::{Base, Desired, Standing};
use crate::ownership::OwnershipView;
use crate::plan::{Plan, PlanError};
use crate::stats::{ClusterStats, Counters};
use crate::trust::Trust;
use delayq::ShardCount;
use delayq::protocol::{ShardId, ShardRanges};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout};
use tokio_util::task::TaskTracker;

/// A membership, to query and to steer. Cheap to clone; when the last clone is dropped without [`Handle::leave`], the
/// member stops as if the process had died: its lease runs out.
#[derive(Clone)]
pub struct Handle {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) views: watch::Receiver<Arc<OwnershipView>>,
    pub(crate) standing: watch::Receiver<Standing>,
    pub(crate) desired: watch::Sender<Desired>,
    pub(crate) leaving: watch::Sender<bool>,
    pub(crate) failed: watch::Receiver<Option<&'static str>>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) leads: Arc<AtomicBool>,
    pub(crate) tasks: TaskTracker,
    pub(crate) mode: Mode,
}

pub(crate) enum Mode {
    Etcd { base: Base, recheck: mpsc::UnboundedSender<()> },
    Single,
}

// === impl Handle ===

impl Handle {
    /// This life of the member; `None` while the member has no lease, and in single mode.
    pub fn member(&self) -> Option<MemberId> {
        self.inner.standing.borrow().session.as_ref().map(|session| session.member.clone())
    }

    /// The lease time that etcd granted; `None` without a lease. A dead member's shards move after this time.
    pub fn granted_ttl(&self) -> Option<Duration> {
        self.inner.standing.borrow().session.as_ref().map(|session| session.ttl)
    }

    /// The member's standing with etcd at this moment: correct even right after the process was frozen, before any task
    /// ran.
    pub fn trust(&self) -> Trust {
        let trust = self.inner.standing.borrow().trust;
        match trust {
            Trust::Trusted { until: Some(until) } if Instant::now() >= until => {
                Trust::Degraded { since: until }
            }
            trust => trust,
        }
    }

    /// The plan as this member last saw it.
    pub fn view(&self) -> Arc<OwnershipView> {
        self.inner.views.borrow().clone()
    }

    /// Follows the plan; the consumer of the shards passes each view to an [`Owning`](crate::Owning). Ends when the
    /// member has left: then a consumer must stop pumping.
    pub fn subscribe(&self) -> watch::Receiver<Arc<OwnershipView>> {
        self.inner.views.clone()
    }

    /// Sets the number of shards. The plan covers the highest number that any member registers.
    pub fn set_shards(&self, shards: ShardCount) {
        self.inner.desired.send_if_modified(|desired| {
            let changed = desired.shards != shards;
            desired.shards = shards;
            changed
        });
    }

    /// Sets the shards that are out of the member's reach for now. The plan gives each to a member that reaches the
    /// shard; a shard that no member reaches stays in place.
    pub fn set_hindered(&self, hindered: ShardRanges) {
        self.inner.desired.send_if_modified(|desired| {
            let changed = desired.hindered != hindered;
            desired.hindered = hindered;
            changed
        });
    }

    /// Gives every shard away: the registration says *draining*, and the next plan gives the shards to other members.
    /// The consumer pumps each shard until its new owner fences the shard, and then calls [`Handle::leave`]. Only a new
    /// join undoes a drain. Safe to call twice.
    pub fn drain(&self) {
        self.inner.desired.send_if_modified(|desired| !std::mem::replace(&mut desired.draining, true));
    }

    /// Leaves the fleet: gives the lease back and ends the tasks. Returns true if the tasks ended before the deadline;
    /// otherwise the lease runs out by itself. Call [`Handle::drain`] before.
    pub async fn leave(&self, deadline: Duration) -> bool {
        self.inner.leaving.send_replace(true);
        timeout(deadline, self.inner.tasks.wait()).await.is_ok()
    }

    /// Resolves with a task's name when one of the member's tasks ended unasked: a bug, after which the process must
    /// end. Otherwise pending forever.
    pub async fn failed(&self) -> &'static str {
        let mut failed = self.inner.failed.clone();
        let name = failed.wait_for(Option::is_some).await.ok().and_then(|name| *name);
        match name {
            Some(name) => name,
            None => std::future::pending().await,
        }
    }

    /// Reads from etcd which of these shards the plan gives to this member now: for fenced pumps. If a shard is
    /// missing, the follower reads the plan again, and the loss arrives through [`Handle::subscribe`].
    ///
    /// # Errors
    /// etcd unreachable or refusing, or a plan that this program cannot read; nothing is known then.
    pub async fn still_mine(&self, shards: &[ShardId]) -> Result<Vec<ShardId>, ClusterError> {
        let planned = match &self.inner.mode {
            Mode::Etcd { base, recheck } => {
                let planned = self.planned(base).await?;
                if !shards.iter().all(|shard| planned.contains(shard)) {
                    // Fails only if the follower has ended.
                    let _ = recheck.send(());
                }
                planned
            }
            Mode::Single => self.view().planned.clone(),
        };
        Ok(shards.iter().copied().filter(|shard| planned.contains(shard)).collect())
    }

    /// The shards that the plan in etcd gives to this life of the member, if registered.
    async fn planned(&self, base: &Base) -> Result<BTreeSet<ShardId>, ClusterError> {
        let session = self.inner.standing.borrow().session.clone();
        let Some(session) = session else { return Ok(BTreeSet::new()) };
        let ranges = [base.keys.member(&session.member), base.keys.plan()].map(Range::Key);
        let read = base.link.read(&ranges).await;
        let (_, read) = read.map_err(|error| error.to_error(base.link.config(), Duration::ZERO))?;
        let [registration, plan] = read.as_slice() else { return Ok(BTreeSet::new()) };
        match plan.first() {
            Some(plan) if registration.first().is_some_and(|entry| session.wrote(entry)) => {
                let plan = Plan::from_json(&plan.value);
                let damaged = |cause: PlanError| ClusterError::Document {
                    key: base.keys.plan(),
                    cause: cause.to_string(),
                };
                Ok(plan.map_err(damaged)?.shards_of(&session.member))
            }
            _ => Ok(BTreeSet::new()),
        }
    }

    /// Returns true if the member leads the fleet, as far as known: two members may return true while one's lease runs
    /// on unnoticed, and no member does while etcd is away. A single owner always leads.
    pub fn leads(&self) -> bool {
        self.inner.leads.load(Ordering::Relaxed)
    }

    /// The reason why etcd takes no writes although etcd answers, such as `alarm NOSPACE`: no plan changes and no
    /// member joins. `None` while etcd takes writes, as far as is known, and in single mode.
    pub fn refusal(&self) -> Option<String> {
        match &self.inner.mode {
            Mode::Etcd { base, .. } => base.link.refusal(),
            Mode::Single => None,
        }
    }

    /// The reason why the member is kept out of the fleet: the fleet belongs to another deployment. The member asks
    /// again every few seconds.
    pub fn foreign(&self) -> Option<ClusterError> {
        match &self.inner.mode {
            Mode::Etcd { base, .. } => base.refused.why(),
            Mode::Single => None,
        }
    }

    /// The member's use of etcd so far.
    pub fn stats(&self) -> ClusterStats {
        self.inner.counters.snapshot()
    }
}
