//! Several timers with a real etcd: hand-over, takeover, and etcd gone.

use crate::stand::{Running, Stand, looking, start};
use delayq_cluster::{ClusterConfig, Role};
use delayq_tests::deadline::{SHORT, wait_until};
use delayq_tests::etcd_server::EtcdCluster;
use delayq_timer::Membership;
use std::time::{Duration, Instant};

const SHARDS: u16 = 16;

/// A deployment with an etcd of its own.
pub(crate) struct Group {
    pub(crate) stand: Stand,
    etcd: EtcdCluster,
}

impl Group {
    async fn new() -> Self {
        Self::with(SHARDS).await
    }

    /// With so many shards.
    pub(crate) async fn with(shards: u16) -> Self {
        Self { stand: Stand::new(shards).await, etcd: EtcdCluster::start_one().await }
    }

    /// A timer that is a member.
    pub(crate) async fn timer(&self, name: &str) -> Running {
        let mut cluster =
            ClusterConfig::new(self.etcd.endpoints(), Role::Timer, name, self.stand.client.shards());
        cluster.lease_ttl = Duration::from_secs(2);
        cluster.etcd.request_deadline = Duration::from_millis(500);
        let config = looking(Duration::from_secs(1));
        start(config, self.stand.client.clone(), Membership::Etcd(Box::new(cluster))).await.unwrap()
    }

    /// Waits until each owns its part of the shards.
    pub(crate) async fn share(&self, timers: &[&Running]) {
        let each = self.stand.shards / timers.len() as u16;
        wait_until("the shards to be shared", SHORT, || async {
            let owned: Vec<u16> =
                timers.iter().map(|timer| timer.metric("delayq_timer_shards") as u16).collect();
            owned.iter().sum::<u16>() == self.stand.shards
                && owned.iter().all(|&n| n == each || n == each + 1)
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_that_stops_hands_its_shards_over_and_nothing_is_late() {
    let group = Group::new().await;
    let one = group.timer("one").await;
    let other = group.timer("other").await;
    group.share(&[&one, &other]).await;
    let start = group.stand.now_ms().await;
    let count = group.stand.put((0..3_000).map(|n| start + 500 + n)).await;
    wait_until("the middle of it", SHORT, || async { group.stand.ready().await > 500 }).await;
    let asked = Instant::now();
    one.stop().await;
    println!("handed over in {:?}", asked.elapsed());
    assert!(asked.elapsed() < Duration::from_secs(3), "the hand-over took {:?}", asked.elapsed());
    other.owns(SHARDS).await;
    let late = group.stand.all_ready(count).await;
    println!("hand-over: p99 {} µs, max {} µs", late[count * 99 / 100], late[count - 1]);
    assert!(late[count - 1] < 1_000_000, "the last was {} µs late", late[count - 1]);
    other.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_timers_shards_are_taken_over_when_its_lease_ends() {
    let group = Group::new().await;
    let one = group.timer("one").await;
    let other = group.timer("other").await;
    group.share(&[&one, &other]).await;
    one.kill().await;
    let count = group.stand.put(vec![group.stand.now_ms().await + 10; 200]).await;
    let late = group.stand.all_ready(count).await;
    println!("takeover: max {} µs", late[count - 1]);
    other.owns(SHARDS).await;
    other.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_etcd_what_is_owned_is_pumped_on() {
    let group = Group::new().await;
    let one = group.timer("one").await;
    one.owns(SHARDS).await;
    group.etcd.freeze();
    one.reaches("delayq_timer_degraded", 1.0).await;
    let start = group.stand.now_ms().await;
    let count = group.stand.put((0..500).map(|n| start + 100 + n)).await;
    group.stand.all_ready(count).await;
    group.etcd.thaw();
    one.reaches("delayq_timer_degraded", 0.0).await;
    one.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shard_that_nobody_pumps_is_rescued_while_etcd_is_gone() {
    let group = Group::new().await;
    let one = group.timer("one").await;
    let other = group.timer("other").await;
    group.share(&[&one, &other]).await;
    group.etcd.freeze();
    one.reaches("delayq_timer_degraded", 1.0).await;
    other.kill().await;
    let count = group.stand.put(vec![group.stand.now_ms().await + 10; 64]).await;
    let late = group.stand.all_ready(count).await;
    assert!(late[count - 1] >= 10_000_000, "only what is overdue by 10 s is anybody's");
    one.exceeds("delayq_timer_rescued_total", 0.0).await;
    group.etcd.thaw();
    one.stop().await;
}
