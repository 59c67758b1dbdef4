//! Joining a group, steering a membership, leaving.

use crate::backoff::Backoff;
use crate::claim_book::ClaimBook;
use crate::claims::{Follower, Inbox};
use crate::config::{ClusterConfig, Role};
use crate::election::Campaigner;
use crate::error::ClusterError;
use crate::etcd::{Fault, Link, Range};
use crate::keys::{Keys, MemberId};
use crate::load::LoadClass;
use crate::membership::{Base, Desired, Keeper, LONGEST_PAUSE, Session, Standing};
use crate::overview::{MemberInfo, Observer, Overview};
use crate::ownership::{Ownership, OwnershipView};
use crate::registrar::Registrar;
use crate::single::{self, Single};
use crate::stats::{ClusterStats, Counters};
use crate::trust::Trust;
use delayq_core::{ShardCount, ShardId};
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::task::TaskTracker;

/// The way into a group.
pub struct Cluster;

/// A membership: to ask and to steer. Cheap to clone; when the last clone is dropped without [`Handle::leave`], the
/// member just stops, as if the process had died: its lease runs out.
#[derive(Clone)]
pub struct Handle {
    inner: Arc<Inner>,
}

struct Inner {
    board: watch::Receiver<Arc<OwnershipView>>,
    standing: watch::Receiver<Standing>,
    desired: watch::Sender<Desired>,
    leaving: watch::Sender<bool>,
    failed: watch::Receiver<Option<&'static str>>,
    counters: Arc<Counters>,
    tasks: TaskTracker,
    group: Group,
}

enum Group {
    Etcd { base: Base, recheck: mpsc::UnboundedSender<oneshot::Sender<()>> },
    Single { name: String, role: Role },
}

/// How a drain went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrainReport {
    /// Shards that were still owned, or stopped but not confirmed, when the deadline passed; empty when all went well.
    pub left_over: Vec<ShardId>,
    /// How long it took.
    pub took: Duration,
}

/// Starts a member's tasks and says when one ends that should not have.
struct Spawner {
    tasks: TaskTracker,
    leaving: watch::Receiver<bool>,
    failed: watch::Sender<Option<&'static str>>,
}

// === impl Cluster ===

impl Cluster {
    /// Joins a group: connects, takes a lease, registers, and starts to follow the plan. What is owned arrives through
    /// [`Ownership::next`].
    ///
    /// # Errors
    /// A configuration that cannot be used; etcd unreachable until `join_deadline`, or refusing this user. Nothing of
    /// this member is left in etcd for longer than a lease.
    pub async fn join(config: ClusterConfig) -> Result<(Handle, Ownership), ClusterError> {
        config.check()?;
        let counters = Arc::new(Counters::default());
        let link = Link::new(config.etcd.clone(), counters.clone())?;
        let desired = Desired { draining: false, shards: config.shards, loads: BTreeMap::new() };
        let keys = Keys::of(&config);
        let base = Base { link, keys, config: Arc::new(config), counters };
        let session = enroll(&base, &desired).await?;
        Ok(start(base, desired, session))
    }

    /// Owns every shard without etcd. [`SINGLE_MODE_LIMITS`](crate::SINGLE_MODE_LIMITS) says what this cannot promise;
    /// the lock that keeps a second owner out is the caller's.
    ///
    /// Must be called within a tokio runtime.
    pub fn single(name: impl Into<String>, role: Role, shards: ShardCount) -> (Handle, Ownership) {
        let (desired, wanted) = watch::channel(Desired { draining: false, shards, loads: BTreeMap::new() });
        let (standing, stands) = watch::channel(single::standing());
        let (board, shown) = watch::channel(Arc::new(OwnershipView::default()));
        let (confirm, confirmed) = mpsc::unbounded_channel();
        let (leaving, left) = watch::channel(false);
        let (spawner, failed) = Spawner::new(left.clone());
        let book = ClaimBook::default();
        let mut single = Single { desired: wanted, confirmed, standing, board, leaving: left, book };
        single.settle();
        spawner.spawn("single owner", single.run());
        let inner = Inner {
            board: shown.clone(),
            standing: stands,
            desired,
            leaving,
            failed,
            counters: Arc::new(Counters::default()),
            tasks: spawner.tasks,
            group: Group::Single { name: name.into(), role },
        };
        (Handle { inner: Arc::new(inner) }, Ownership::new(shown, confirm))
    }
}

async fn enroll(base: &Base, desired: &Desired) -> Result<Session, ClusterError> {
    let started = Instant::now();
    let mut backoff = Backoff::up_to(LONGEST_PAUSE);
    loop {
        let fault = match base.enroll(desired).await {
            Ok(session) => return Ok(session),
            Err(fault) => fault,
        };
        let waited = started.elapsed();
        if waited >= base.config.join_deadline || matches!(fault, Fault::Refused(_)) {
            return Err(fault.to_error(base.link.config(), waited));
        }
        tracing::warn!(?fault, "cannot join yet");
        sleep(backoff.next()).await;
    }
}

fn start(base: Base, desired: Desired, session: Session) -> (Handle, Ownership) {
    let (desired, wanted) = watch::channel(desired);
    let (standing, stands) = watch::channel(Standing::enrolled(session));
    let (board, shown) = watch::channel(Arc::new(OwnershipView::default()));
    let (confirm, confirmed) = mpsc::unbounded_channel();
    let (recheck, rechecks) = mpsc::unbounded_channel();
    let (missed, missing) = mpsc::unbounded_channel();
    let (leaving, left) = watch::channel(false);
    let (spawner, failed) = Spawner::new(left.clone());
    let inbox =
        Inbox { standing: stands.clone(), confirmed, rechecks, leaving: left.clone(), drained_alone: false };
    let keeper = Keeper::new(base.clone(), wanted.clone(), standing, missing, left.clone());
    let registrar = Registrar::new(base.clone(), wanted, stands.clone(), left.clone());
    let campaigner = Campaigner::new(base.clone(), stands.clone(), left);
    spawner.spawn("lease keeper", keeper.run());
    spawner.spawn("registrar", registrar.run());
    spawner.spawn("campaigner", campaigner.run());
    spawner.spawn("follower", Follower::new(base.clone(), inbox, missed, board).run());
    let inner = Inner {
        board: shown.clone(),
        standing: stands,
        desired,
        leaving,
        failed,
        counters: base.counters.clone(),
        tasks: spawner.tasks,
        group: Group::Etcd { base, recheck },
    };
    (Handle { inner: Arc::new(inner) }, Ownership::new(shown, confirm))
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

    /// Follows what is owned, for whoever only looks. The consumer of the shards uses [`Ownership`].
    pub fn subscribe(&self) -> watch::Receiver<Arc<OwnershipView>> {
        self.inner.board.clone()
    }

    /// Tells how many messages a second each shard moves; shards not named are idle. Coarse changes only reach etcd, and
    /// not more often than `load_report_every`: call it as often as is convenient.
    pub fn report_load(&self, per_second: &BTreeMap<ShardId, u64>) {
        self.inner.desired.send_if_modified(|desired| {
            let class = |(&shard, &load): (&ShardId, &u64)| {
                let before = desired.loads.get(&shard).copied().unwrap_or_default();
                let class = LoadClass::of(load, before);
                (class != LoadClass::default()).then_some((shard, class))
            };
            let loads: BTreeMap<ShardId, LoadClass> = per_second.iter().filter_map(class).collect();
            let changed = desired.loads != loads;
            desired.loads = loads;
            changed
        });
    }

    /// Says that there are now this many shards. The plan covers the most that any member says.
    pub fn set_shards(&self, shards: ShardCount) {
        self.inner.desired.send_if_modified(|desired| {
            let changed = desired.shards != shards;
            desired.shards = shards;
            changed
        });
    }

    /// Gives every shard away: the registration says *draining*, the plan moves the shards off, and each is given back
    /// once the consumer confirmed it. Returns when nothing is held any more, or at the deadline. There is no way back
    /// but to join anew. Safe to drop and to call twice.
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

    /// Leaves the group: whatever is still owned is told as lost, the lease is given back, the tasks end. Answers whether
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

    /// Looks in etcd which of these shards are claimed by this member now: for a pump that was refused as fenced. If one
    /// is not, what is owned is read anew, and the loss arrives through [`Ownership::next`].
    ///
    /// # Errors
    /// etcd unreachable or refusing; nothing is known then.
    pub async fn still_mine(&self, shards: &[ShardId]) -> Result<Vec<ShardId>, ClusterError> {
        let Group::Etcd { base, recheck } = &self.inner.group else {
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
            // A follower that has ended has told every loss already.
            let _ = recheck.send(answer);
            let _ = timeout(base.config.etcd.request_deadline, answered).await;
        }
        Ok(mine)
    }

    /// The whole group as it stands in etcd; in single mode, this member alone.
    ///
    /// # Errors
    /// etcd unreachable or refusing, or a plan of a newer format.
    pub async fn overview(&self) -> Result<Overview, ClusterError> {
        match &self.inner.group {
            Group::Etcd { base, .. } => {
                Observer::of(base.link.clone(), base.keys.clone(), base.config.role).overview().await
            }
            Group::Single { name, role } => Ok(self.overview_of_one(name, *role)),
        }
    }

    /// What the member did with etcd so far.
    pub fn stats(&self) -> ClusterStats {
        self.inner.counters.snapshot()
    }

    fn overview_of_one(&self, name: &str, role: Role) -> Overview {
        let desired = self.inner.desired.borrow().clone();
        let view = self.view();
        let member = MemberInfo {
            id: MemberId::from_text(name),
            name: name.to_owned(),
            zone: String::new(),
            weight: 1,
            version: env!("CARGO_PKG_VERSION").into(),
            address: String::new(),
            draining: desired.draining,
            since_ms: 0,
            leader: true,
            planned: usize::from(desired.shards.get()),
            claimed: view.owned.len(),
        };
        let unclaimed = desired.shards.shards().filter(|shard| !view.owned.contains_key(shard)).collect();
        let (claims, misplaced, unreadable) = (Vec::new(), Vec::new(), Vec::new());
        let members = vec![member];
        Overview { role, revision: 0, members, plan: None, claims, unclaimed, misplaced, unreadable }
    }
}

fn held(view: &OwnershipView) -> Vec<ShardId> {
    let handed_over = view.parted.values().filter(|lost| lost.reason.awaits_confirmation());
    view.owned.keys().copied().chain(handed_over.map(|lost| lost.shard)).collect()
}

// === impl Spawner ===

impl Spawner {
    fn new(leaving: watch::Receiver<bool>) -> (Self, watch::Receiver<Option<&'static str>>) {
        let (failed, failures) = watch::channel(None);
        (Self { tasks: TaskTracker::new(), leaving, failed }, failures)
    }

    fn spawn(&self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.close();
        let running = self.tasks.spawn(task);
        let (leaving, failed) = (self.leaving.clone(), self.failed.clone());
        tokio::spawn(async move {
            let ended = running.await;
            let asked = *leaving.borrow() || leaving.has_changed().is_err();
            if !asked || ended.is_err() {
                failed.send_replace(Some(name));
            }
        });
    }
}
