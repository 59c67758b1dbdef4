//! Members that really consume what they own, and a floor that knows who works on what.

use delayq_cluster::{
    Cluster, ClusterConfig, ClusterStats, EtcdConfig, Handle, LossReason, Lost, Ownership, ShardCount,
    ShardId, Trust,
};
use delayq_service::config::{DeploymentConfig, HumanDuration};
use delayq_tests::deadline::{LONG, wait_until};
use delayq_tests::stall::Stall;
use delayq_tests::timing::Timing;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

/// Who works on which shard at this moment, as the consumers themselves say.
#[derive(Clone, Debug, Default)]
pub(crate) struct Work {
    pub(crate) workers: BTreeMap<ShardId, BTreeSet<String>>,
    /// Shards that two worked on at once, with both names.
    pub(crate) overlaps: Vec<(ShardId, String, String)>,
    /// When each shard was stopped last, and the longest time that one then waited for its next worker.
    pub(crate) stopped: BTreeMap<ShardId, Instant>,
    pub(crate) longest_gap: Duration,
    /// Every loss, in order: who, and what.
    pub(crate) losses: Vec<(String, Lost)>,
}

/// Where the consumers of a test report.
#[derive(Clone)]
pub(crate) struct Floor {
    work: Arc<watch::Sender<Work>>,
    stall: Arc<Stall>,
}

/// A member with a consumer.
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) handle: Handle,
    floor: Floor,
    consumer: tokio::task::JoinHandle<()>,
}

impl Work {
    /// How many shards a member works on.
    pub(crate) fn of(&self, name: &str) -> usize {
        self.workers.values().filter(|workers| workers.contains(name)).count()
    }

    /// Whether every shard has exactly one worker.
    pub(crate) fn covers(&self, shards: u16) -> bool {
        (0..shards).all(|n| self.workers.get(&ShardId::new(n)).is_some_and(|workers| workers.len() == 1))
    }

    /// Whether every shard has exactly one worker and the counts of these members differ by one at most.
    pub(crate) fn balanced(&self, shards: u16, names: &[&str]) -> bool {
        let counts: Vec<usize> = names.iter().map(|name| self.of(name)).collect();
        let (most, least) = (counts.iter().max().unwrap(), counts.iter().min().unwrap());
        self.covers(shards) && counts.iter().sum::<usize>() == usize::from(shards) && most - least <= 1
    }
}

impl Floor {
    pub(crate) fn new() -> Self {
        Self { work: Arc::new(watch::channel(Work::default()).0), stall: Arc::new(Stall::watch()) }
    }

    pub(crate) fn work(&self) -> Work {
        self.work.borrow().clone()
    }

    /// Waits until the work is as it should be; answers how long that took.
    pub(crate) async fn until(&self, what: &str, so: impl FnMut(&Work) -> bool) -> Duration {
        let started = Instant::now();
        let mut work = self.work.subscribe();
        let came = timeout(LONG, work.wait_for(so)).await.is_ok();
        assert!(came, "not within {LONG:?}: {what}; {:?}", self.summary());
        started.elapsed()
    }

    /// Judges a time by its bound, and by what the machine itself kept waiting since the floor is there.
    pub(crate) fn judge(&self, what: &str, took: Duration, bound: Duration) -> Timing {
        self.stall.judge(what, took, bound)
    }

    /// Measures the longest gap from scratch.
    pub(crate) fn forget_gaps(&self) {
        self.work.send_modify(|work| work.longest_gap = Duration::ZERO);
    }

    fn summary(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for worker in self.work.borrow().workers.values().flatten() {
            *counts.entry(worker.clone()).or_insert(0) += 1;
        }
        counts
    }

    fn start(&self, name: &str, shards: &[ShardId]) {
        self.work.send_modify(|work| {
            for &shard in shards {
                let workers = work.workers.entry(shard).or_default();
                if let Some(other) = workers.first() {
                    work.overlaps.push((shard, other.clone(), name.to_owned()));
                }
                workers.insert(name.to_owned());
                if let Some(stopped) = work.stopped.remove(&shard) {
                    work.longest_gap = work.longest_gap.max(stopped.elapsed());
                }
            }
        });
    }

    fn stop(&self, name: &str, lost: &[Lost]) {
        self.work.send_modify(|work| {
            for lost in lost {
                if let Some(workers) = work.workers.get_mut(&lost.shard) {
                    workers.remove(name);
                }
                work.stopped.insert(lost.shard, Instant::now());
                work.losses.push((name.to_owned(), lost.clone()));
            }
        });
    }

    fn stop_all(&self, name: &str) {
        self.work.send_modify(|work| {
            for workers in work.workers.values_mut() {
                workers.remove(name);
            }
        });
    }
}

impl Member {
    /// Joins, and consumes: every shard is started when gained, stopped when lost, and then confirmed.
    pub(crate) async fn join(config: ClusterConfig, floor: &Floor) -> Self {
        // DELAYQ_TEST_LOG=delayq_cluster=debug shows what the members did.
        if let Ok(filter) = std::env::var("DELAYQ_TEST_LOG") {
            let _ = tracing_subscriber::fmt().with_env_filter(filter).with_test_writer().try_init();
        }
        let name = config.member.name.clone();
        Self::consume(name, Cluster::join(config).await.unwrap(), floor)
    }

    /// Starts, joined or not, and consumes likewise.
    pub(crate) async fn start(config: ClusterConfig, floor: &Floor) -> Self {
        let name = config.member.name.clone();
        Self::consume(name, Cluster::start(config).await.unwrap(), floor)
    }

    fn consume(name: String, (handle, mut ownership): (Handle, Ownership), floor: &Floor) -> Self {
        let (consumer_name, consumer_floor) = (name.clone(), floor.clone());
        let consumer = tokio::spawn(async move {
            while let Some(change) = ownership.next().await {
                if !change.lost.is_empty() {
                    consumer_floor.stop(&consumer_name, &change.lost);
                    ownership.confirm(&change.lost);
                }
                if !change.gained.is_empty() {
                    consumer_floor.start(&consumer_name, &change.gained);
                }
            }
        });
        Self { name, handle, floor: floor.clone(), consumer }
    }

    /// Dies as a process does: everything stops at once, and the lease stays behind.
    pub(crate) fn die(self) {
        self.consumer.abort();
        self.floor.stop_all(&self.name);
    }

    /// Drains and leaves in order.
    pub(crate) async fn leave(self) {
        let drained = self.handle.drain(LONG).await;
        assert_eq!(drained.left_over, []);
        assert!(self.handle.leave(LONG).await);
        self.consumer.await.unwrap();
    }

    /// Waits until the member stands like this with etcd.
    pub(crate) async fn until_trust(&self, name: &str) {
        let mut view = self.handle.subscribe();
        let came = timeout(LONG, view.wait_for(|view| view.trust.name() == name)).await.is_ok();
        assert!(came, "{} is {:?}, not {name} within {LONG:?}", self.name, self.handle.view().trust);
    }

    /// Until when the last keep-alive that was answered lets the member trust its lease.
    pub(crate) fn trusted_until(&self) -> Instant {
        match self.handle.trust() {
            Trust::Trusted { until: Some(until) } => until,
            other => panic!("{} is {other:?}, not trusted", self.name),
        }
    }

    /// Waits until a later keep-alive than that one was answered.
    pub(crate) async fn until_trusted_beyond(&self, before: Instant) {
        let mut view = self.handle.subscribe();
        let later = |trust: Trust| matches!(trust, Trust::Trusted { until: Some(until) } if until > before);
        let came = timeout(LONG, view.wait_for(|view| later(view.trust))).await.is_ok();
        assert!(came, "no keep-alive of {} was answered within {LONG:?}", self.name);
    }

    /// Polls the counters, which notify nobody, until they are so.
    pub(crate) async fn until_stats(&self, what: &str, so: impl Fn(&ClusterStats) -> bool) {
        wait_until(what, LONG, || std::future::ready(so(&self.handle.stats()))).await;
    }

    pub(crate) fn is_trusted(&self) -> bool {
        matches!(self.handle.trust(), Trust::Trusted { .. })
    }
}

/// A configuration with short times.
pub(crate) fn config(endpoints: &[String], name: &str, shards: u16) -> ClusterConfig {
    let etcd = EtcdConfig { lease_ttl: HumanDuration::from_secs(3), ..EtcdConfig::at(endpoints).unwrap() };
    let deployment =
        DeploymentConfig { shards: ShardCount::new(shards).unwrap(), ..DeploymentConfig::default() };
    let mut config = ClusterConfig::new(&etcd, &deployment, name);
    config.join_deadline = LONG;
    config
}

/// Why a member lost its shards, each reason once.
pub(crate) fn reasons(work: &Work, name: &str) -> BTreeSet<String> {
    let reason = |lost: &Lost| match &lost.reason {
        LossReason::HandOver { .. } => "hand-over".to_owned(),
        other => format!("{other:?}"),
    };
    work.losses.iter().filter(|(who, _)| who == name).map(|(_, lost)| reason(lost)).collect()
}

pub(crate) fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
