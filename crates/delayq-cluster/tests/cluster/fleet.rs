//! Members that follow their plan in a real etcd, and a floor that issues epochs in place of Redis.

use delayq_cluster::{
    Cluster, ClusterConfig, ClusterStats, EtcdConfig, Handle, Observer, Overview, Owning, ShardCount,
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

const PUMPED_EVERY: Duration = Duration::from_millis(20);

#[derive(Clone, Debug, Default)]
pub(crate) struct Work {
    /// Members that pump each shard: two for a moment at a hand-over.
    pub(crate) workers: BTreeMap<ShardId, BTreeSet<String>>,
    pub(crate) epochs: BTreeMap<ShardId, (u64, String)>,
    stopped: BTreeMap<ShardId, Instant>,
    pub(crate) longest_gap: Duration,
    pub(crate) claims: usize,
    pub(crate) fenced: usize,
}

#[derive(Clone)]
pub(crate) struct Floor {
    work: Arc<watch::Sender<Work>>,
    stall: Arc<Stall>,
}

pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) handle: Handle,
    observer: Observer,
    floor: Floor,
    consumer: tokio::task::JoinHandle<()>,
}

struct Consumer {
    name: String,
    handle: Handle,
    floor: Floor,
    owning: Owning,
    epochs: BTreeMap<ShardId, u64>,
}

impl Work {
    pub(crate) fn of(&self, name: &str) -> usize {
        self.workers.values().filter(|workers| workers.contains(name)).count()
    }

    pub(crate) fn covers(&self, shards: u16) -> bool {
        (0..shards).map(ShardId::new).all(|shard| {
            let (workers, newest) = (self.workers.get(&shard), self.epochs.get(&shard));
            workers.zip(newest).is_some_and(|(workers, (_, owner))| workers.iter().eq([owner]))
        })
    }

    /// Counts of these members differ by one at most.
    pub(crate) fn balanced(&self, shards: u16, names: &[&str]) -> bool {
        let counts: Vec<usize> = names.iter().map(|name| self.of(name)).collect();
        let (most, least) = (counts.iter().max().unwrap(), counts.iter().min().unwrap());
        self.covers(shards) && counts.iter().sum::<usize>() == usize::from(shards) && most - least <= 1
    }

    pub(crate) fn shards_of(&self, name: &str) -> Vec<ShardId> {
        let theirs = self.workers.iter().filter(|(_, workers)| workers.contains(name));
        theirs.map(|(&shard, _)| shard).collect()
    }
}

impl Floor {
    pub(crate) fn new() -> Self {
        Self { work: Arc::new(watch::channel(Work::default()).0), stall: Arc::new(Stall::watch()) }
    }

    pub(crate) fn work(&self) -> Work {
        self.work.borrow().clone()
    }

    pub(crate) async fn until(&self, what: &str, so: impl FnMut(&Work) -> bool) -> Duration {
        let started = Instant::now();
        let mut work = self.work.subscribe();
        let came = timeout(LONG, work.wait_for(so)).await.is_ok();
        assert!(came, "not within {LONG:?}: {what}; {:?}", self.summary());
        started.elapsed()
    }

    /// Judges a time by its bound, and by the machine's own delays since the floor began.
    pub(crate) fn judge(&self, what: &str, took: Duration, bound: Duration) -> Timing {
        self.stall.judge(what, took, bound)
    }

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

    fn claim(&self, name: &str, shards: &[ShardId]) -> BTreeMap<ShardId, u64> {
        let mut epochs = BTreeMap::new();
        self.work.send_modify(|work| {
            for &shard in shards {
                let epoch = work.epochs.get(&shard).map_or(1, |(epoch, _)| epoch + 1);
                work.epochs.insert(shard, (epoch, name.to_owned()));
                work.workers.entry(shard).or_default().insert(name.to_owned());
                if let Some(stopped) = work.stopped.remove(&shard) {
                    work.longest_gap = work.longest_gap.max(stopped.elapsed());
                }
                epochs.insert(shard, epoch);
            }
            work.claims += shards.len();
        });
        epochs
    }

    fn fenced(&self, epochs: &BTreeMap<ShardId, u64>) -> Vec<ShardId> {
        let work = self.work.borrow();
        let newest = |shard| work.epochs.get(shard).map_or(0, |&(epoch, _)| epoch);
        epochs.iter().filter(|(shard, epoch)| newest(shard) > **epoch).map(|(&shard, _)| shard).collect()
    }

    fn stop(&self, name: &str, shards: &[ShardId], fenced: usize) {
        self.work.send_modify(|work| {
            work.fenced += fenced;
            for shard in shards {
                let workers = work.workers.entry(*shard).or_default();
                workers.remove(name);
                if workers.is_empty() {
                    work.stopped.insert(*shard, Instant::now());
                }
            }
        });
    }
}

impl Consumer {
    async fn run(mut self) {
        let mut views = self.handle.subscribe();
        views.mark_changed();
        let mut pumped = tokio::time::interval(PUMPED_EVERY);
        loop {
            tokio::select! {
                changed = views.changed() => match changed {
                    Ok(()) => self.follow(&views.borrow_and_update().clone()),
                    Err(_) => break,
                },
                _ = pumped.tick() => self.pump(),
            }
            self.ask().await;
            self.claim();
        }
        let left: Vec<ShardId> = self.epochs.keys().copied().collect();
        self.floor.stop(&self.name, &left, 0);
    }

    fn follow(&mut self, view: &delayq_cluster::OwnershipView) {
        let gone = self.owning.follow(view, std::time::Instant::now()).gone;
        self.stop(&gone, 0);
    }

    fn claim(&mut self) {
        let now = std::time::Instant::now();
        let wanted = self.owning.claims(now);
        if !wanted.is_empty() {
            self.epochs.extend(self.floor.claim(&self.name, &wanted));
            wanted.iter().for_each(|&shard| _ = self.owning.claimed(shard, now));
        }
    }

    fn pump(&mut self) {
        let now = std::time::Instant::now();
        let fenced = self.floor.fenced(&self.epochs);
        fenced.iter().for_each(|&shard| _ = self.owning.fenced(shard, now));
        if !fenced.is_empty() {
            self.stop(&fenced, fenced.len());
        }
    }

    async fn ask(&mut self) {
        let now = std::time::Instant::now();
        let doubted = self.owning.questions(now);
        if doubted.is_empty() {
            return;
        }
        let mine = self.handle.still_mine(&doubted).await.unwrap_or_default();
        for shard in doubted {
            if mine.contains(&shard) {
                self.owning.still_mine(shard, now);
            } else {
                self.owning.doubt(shard, now + PUMPED_EVERY);
            }
        }
    }

    fn stop(&mut self, shards: &[ShardId], fenced: usize) {
        if !shards.is_empty() {
            shards.iter().for_each(|shard| _ = self.epochs.remove(shard));
            self.floor.stop(&self.name, shards, fenced);
        }
    }
}

impl Member {
    pub(crate) async fn join(config: ClusterConfig, floor: &Floor) -> Self {
        // DELAYQ_TEST_LOG=delayq_cluster=debug shows the members' log.
        if let Ok(filter) = std::env::var("DELAYQ_TEST_LOG") {
            let _ = tracing_subscriber::fmt().with_env_filter(filter).with_test_writer().try_init();
        }
        let member = Self::start(config, floor).await;
        member.until_trust("trusted").await;
        member
    }

    pub(crate) async fn start(config: ClusterConfig, floor: &Floor) -> Self {
        let (name, observer) = (config.member.name.clone(), Observer::new(&config).unwrap());
        let handle = Cluster::start(config).await.unwrap();
        let consumer = Consumer {
            name: name.clone(),
            handle: handle.clone(),
            floor: floor.clone(),
            owning: Owning::default(),
            epochs: BTreeMap::new(),
        };
        Self { name, handle, observer, floor: floor.clone(), consumer: tokio::spawn(consumer.run()) }
    }

    pub(crate) async fn overview(&self) -> Overview {
        self.observer.overview().await.unwrap()
    }

    /// Dies like a process: everything stops at once, and the lease stays behind.
    pub(crate) fn die(self) {
        self.consumer.abort();
        let theirs = self.floor.work().shards_of(&self.name);
        self.floor.stop(&self.name, &theirs, 0);
    }

    pub(crate) async fn leave(self) {
        self.handle.drain();
        self.floor.until("nothing is left to it", |work| work.of(&self.name) == 0).await;
        assert!(self.handle.leave(LONG).await);
        self.consumer.await.unwrap();
    }

    pub(crate) async fn until_trust(&self, name: &str) {
        let mut view = self.handle.subscribe();
        let came = timeout(LONG, view.wait_for(|view| view.trust.name() == name)).await.is_ok();
        assert!(came, "{} is {:?}, not {name} within {LONG:?}", self.name, self.handle.view().trust);
    }

    /// The end of trust in the lease, by the last answered keep-alive.
    pub(crate) fn trusted_until(&self) -> Instant {
        match self.handle.trust() {
            Trust::Trusted { until: Some(until) } => until,
            other => panic!("{} is {other:?}, not trusted", self.name),
        }
    }

    /// Waits until a later keep-alive was answered.
    pub(crate) async fn until_trusted_beyond(&self, before: Instant) {
        let mut view = self.handle.subscribe();
        let later = |trust: Trust| matches!(trust, Trust::Trusted { until: Some(until) } if until > before);
        let came = timeout(LONG, view.wait_for(|view| later(view.trust))).await.is_ok();
        assert!(came, "no keep-alive of {} was answered within {LONG:?}", self.name);
    }

    /// Polls the counters, which notify nobody.
    pub(crate) async fn until_stats(&self, what: &str, so: impl Fn(&ClusterStats) -> bool) {
        wait_until(what, LONG, || std::future::ready(so(&self.handle.stats()))).await;
    }

    pub(crate) fn is_trusted(&self) -> bool {
        matches!(self.handle.trust(), Trust::Trusted { .. })
    }
}

pub(crate) fn config(endpoints: &[String], name: &str, shards: u16) -> ClusterConfig {
    let etcd = EtcdConfig { lease_ttl: HumanDuration::from_secs(3), ..EtcdConfig::at(endpoints).unwrap() };
    let deployment =
        DeploymentConfig { shards: ShardCount::new(shards).unwrap(), ..DeploymentConfig::default() };
    ClusterConfig::new(&etcd, &deployment, name)
}

pub(crate) fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
