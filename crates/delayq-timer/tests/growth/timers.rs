//! Timers in this process.

use crate::load::settings;
use delayq_cluster::{ClusterConfig, Role};
use delayq_core::Client;
use delayq_service::{Fault, Metrics, Readiness, Shutdown};
use delayq_tests::deadline::{SHORT, wait_until, within};
use delayq_tests::etcd_server::EtcdCluster;
use delayq_tests::redis_server::RedisServer;
use delayq_timer::{Deps, Membership, TimerConfig, build};
use std::time::Duration;
use tokio::task::JoinHandle;

/// A running timer.
pub(crate) struct Running {
    metrics: Metrics,
    shutdown: Shutdown,
    task: JoinHandle<Result<(), Fault>>,
}

impl Running {
    /// One that owns everything; its configuration says 4 shards.
    pub(crate) async fn single(server: &RedisServer) -> Self {
        let running = Self::start(server, Membership::Single { owner: "one".to_owned() }).await;
        wait_until("the timer to own shards", SHORT, || async { running.owns() >= 4 }).await;
        running
    }

    /// One of a group; its configuration says 4 shards.
    pub(crate) async fn member(server: &RedisServer, etcd: &EtcdCluster, name: &str) -> Self {
        let shards = settings(server, 4).shards;
        let mut cluster = ClusterConfig::new(etcd.endpoints(), Role::Timer, name, shards);
        cluster.lease_ttl = Duration::from_secs(5);
        Self::start(server, Membership::Etcd(Box::new(cluster))).await
    }

    async fn start(server: &RedisServer, membership: Membership) -> Self {
        let (metrics, readiness, shutdown) = (Metrics::new(), Readiness::new(), Shutdown::new());
        let client = Client::new(settings(server, 4));
        let deps = Deps { client, metrics: metrics.clone(), readiness, membership };
        let timer = build(TimerConfig::default(), deps).await.unwrap();
        let task = tokio::spawn(timer.run(shutdown.clone()));
        Self { metrics, shutdown, task }
    }

    /// How many shards it pumps.
    pub(crate) fn owns(&self) -> u64 {
        let text = self.metrics.encode();
        let line = text.lines().find_map(|line| line.strip_prefix("delayq_timer_shards "));
        line.and_then(|value| value.parse::<f64>().ok()).unwrap_or(0.0) as u64
    }

    pub(crate) async fn stop(self) {
        self.shutdown.request();
        within("the timer's end", SHORT, self.task).await.unwrap().unwrap();
    }
}
