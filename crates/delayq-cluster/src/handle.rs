//! Steering a membership and asking about it; draining and leaving.

use crate::error::ClusterError;
use crate::etcd::Range;
use crate::keys::MemberId;
use crate::membership::{Base, Desired, Standing};
use crate::overview::{MemberInfo, Observer, Overview};
use crate::ownership::OwnershipView;
use crate::stats::{ClusterStats, Counters};
use crate::trust::Trust;
use delayq::ShardCount;
use delayq::protocol::ShardId;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, timeout};
use tokio_util::task::TaskTracker;

/// A membership: to ask and to steer. Cheap to clone; when the last clone is dropped without [`Handle::leave`], the
/// member just stops, as if the process had died: its lease runs out.
#[derive(Clone)]
pub struct Handle {
    pub(crate) inner: Arc<Inner>,
}

/// What a membership is made of.
pub(crate) struct Inner {
    pub(crate) board: watch::Receiver<Arc<OwnershipView>>,
    pub(crate) standing: watch::Receiver<Standing>,
    pub(crate) desired: watch::Sender<Desired>,
    pub(crate) leaving: watch::Sender<bool>,
    pub(crate) failed: watch::Receiver<Option<&'static str>>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) leads: Arc<AtomicBool>,
    pub(crate) tasks: TaskTracker,
    pub(crate) mode: Mode,
}

/// With others, or alone.
pub(crate) enum Mode {
    Etcd { base: Base, recheck: mpsc::UnboundedSender<oneshot::Sender<()>> },
    Single { name: String },
}

/// How a drain went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrainReport {
    /// Shards that were still owned, or stopped but not confirmed, when the deadline passed; empty when all went well.
    pub left_over: Vec<ShardId>,
    /// How long it took.
    pub took: Duration,
}

// === impl Handle ===

impl Handle {
    /// This life of the member; none while it has no lease, and in single mode.
    pub fn member(&self) -> Option<MemberId> {
        self.inner.standing.borrow().session.as_ref().map(|session| session.member.clone())
    }

    /// The lease time that etcd granted; none without a lease. A dead member's shards move after it.
    pub fn granted_ttl(&self) -> Option<Duration> {
        self.inner.standing.borrow().session.as_ref().map(|session| session.ttl)
    }

    /// How the member stands with etcd at this moment: also right after the process was frozen, before any task ran.
    pub fn trust(&self) -> Trust {
        let trust = self.inner.standing.borrow().trust;
        match trust {
            Trust::Trusted { until: Some(until) } if Instant::now() >= until => {
                Trust::Degraded { since: until }
            }
            trust => trust,
        }
    }

    /// What is owned at this moment.
    pub fn view(&self) -> Arc<OwnershipView> {
        self.inner.board.borrow().clone()
    }

    /// Follows what is owned, for those who only observe. The consumer of the shards uses [`Ownership`](crate::Ownership).
    pub fn subscribe(&self) -> watch::Receiver<Arc<OwnershipView>> {
        self.inner.board.clone()
    }

    /// Says that there are now this many shards. The plan covers the most that any member says.
    pub fn set_shards(&self, shards: ShardCount) {
        self.inner.desired.send_if_modified(|desired| {
            let changed = desired.shards != shards;
            desired.shards = shards;
            changed
        });
    }

    /// Says that the member cannot do its work for now, such as without its Redis, or that it can again. Its shards are
    /// planned for others while any other can do it; where none can, all of them keep what they have.
    pub fn set_hindered(&self, hindered: bool) {
        self.inner
            .desired
            .send_if_modified(|desired| std::mem::replace(&mut desired.hindered, hindered) != hindered);
    }

    /// Gives every shard away: the registration says *draining*, the plan moves the shards off, and each is given back
    /// once the consumer confirmed it. Returns when nothing is held any more, or at the deadline. There is no way back
    /// but to join again. Cancel safe; safe to call twice.
    pub async fn drain(&self, deadline: Duration) -> DrainReport {
        let started = Instant::now();
        self.inner.desired.send_if_modified(|desired| !std::mem::replace(&mut desired.draining, true));
        let mut board = self.inner.board.clone();
        let drained = |view: &Arc<OwnershipView>| {
            let taking = !matches!(view.trust, Trust::Draining { .. } | Trust::Left);
            !taking && view.owned.is_empty() && view.unsettled == 0
        };
        let in_time = timeout(deadline, board.wait_for(drained)).await.is_ok();
        let left_over = if in_time { Vec::new() } else { held(&self.view()) };
        DrainReport { left_over, took: started.elapsed() }
    }

    /// Leaves the fleet: what is still owned is reported as lost, the lease is given back, the tasks end. Answers whether
    /// they ended before the deadline; if not, the lease runs out by itself. Call [`Handle::drain`] before.
    pub async fn leave(&self, deadline: Duration) -> bool {
        self.inner.leaving.send_replace(true);
        timeout(deadline, self.inner.tasks.wait()).await.is_ok()
    }

    /// Resolves with its name when one of the member's tasks ended though nobody asked it to: a bug, after which the
    /// process must end. Pending for ever otherwise.
    pub async fn failed(&self) -> &'static str {
        let mut failed = self.inner.failed.clone();
        let name = failed.wait_for(Option::is_some).await.ok().and_then(|name| *name);
        match name {
            Some(name) => name,
            None => std::future::pending().await,
        }
    }

    /// Reads from etcd which of these shards are claimed by this member now: for a pump that was refused as fenced. If one
    /// is not, what is owned is read again, and the loss arrives through [`Ownership::next`](crate::Ownership::next).
    ///
    /// # Errors
    /// etcd unreachable or refusing; nothing is known then.
    pub async fn still_mine(&self, shards: &[ShardId]) -> Result<Vec<ShardId>, ClusterError> {
        let Mode::Etcd { base, recheck } = &self.inner.mode else {
            return Ok(shards
                .iter()
                .copied()
                .filter(|shard| self.view().owned.contains_key(shard))
                .collect());
        };
        let lease = self.inner.standing.borrow().session.as_ref().map(|session| session.lease);
        let Some(lease) = lease else { return Ok(Vec::new()) };
        let mut mine = Vec::new();
        for batch in shards.chunks(100) {
            let ranges: Vec<Range> = batch.iter().map(|&shard| Range::Key(base.keys.claim(shard))).collect();
            let (_, read) =
                base.link.read(&ranges).await.map_err(|f| f.to_error(base.link.config(), Duration::ZERO))?;
            let found =
                batch.iter().zip(read).filter(|(_, found)| found.first().is_some_and(|e| e.lease == lease));
            mine.extend(found.map(|(&shard, _)| shard));
        }
        if mine.len() < shards.len() {
            let (answer, answered) = oneshot::channel();
            // A follower that has ended has reported every loss already.
            let _ = recheck.send(answer);
            let _ = timeout(*base.config.etcd.call_deadline, answered).await;
        }
        Ok(mine)
    }

    /// The whole fleet as it stands in etcd; in single mode, this member alone.
    ///
    /// # Errors
    /// etcd unreachable or refusing, or a plan of a newer format.
    pub async fn overview(&self) -> Result<Overview, ClusterError> {
        match &self.inner.mode {
            Mode::Etcd { base, .. } => Observer::of(base.link.clone(), base.keys.clone()).overview().await,
            Mode::Single { name } => Ok(self.overview_of_one(name)),
        }
    }

    /// Whether the member leads the fleet, as far as it knows: for the time that its lease runs on unnoticed, two may say so,
    /// and while etcd is away nobody does. A single owner always leads.
    pub fn leads(&self) -> bool {
        self.inner.leads.load(Ordering::Relaxed)
    }

    /// What the member did with etcd so far.
    pub fn stats(&self) -> ClusterStats {
        self.inner.counters.snapshot()
    }

    fn overview_of_one(&self, name: &str) -> Overview {
        let desired = self.inner.desired.borrow().clone();
        let view = self.view();
        let member = MemberInfo {
            id: MemberId::from_text(name),
            name: name.to_owned(),
            version: env!("CARGO_PKG_VERSION").into(),
            address: String::new(),
            draining: desired.draining,
            hindered: desired.hindered,
            drained: false,
            since_ms: 0,
            leader: true,
            planned: usize::from(desired.shards.get()),
            claimed: view.owned.len(),
        };
        let unclaimed = desired.shards.shards().filter(|shard| !view.owned.contains_key(shard)).collect();
        Overview { members: vec![member], unclaimed, ..Overview::default() }
    }
}

fn held(view: &OwnershipView) -> Vec<ShardId> {
    let handed_over = view.parted.values().filter(|lost| lost.reason.awaits_confirmation());
    view.owned.keys().copied().chain(handed_over.map(|lost| lost.shard)).collect()
}
