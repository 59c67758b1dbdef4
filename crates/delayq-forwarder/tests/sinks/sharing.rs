//! Several forwarders on one deployment: by competing, and by the plan of a real etcd.

use crate::stage::{Running, Seen, Stage, record, route};
use delayq::{Admin, ShardCount};
use delayq_cluster::{ClusterConfig, EtcdConfig, Role};
use delayq_forwarder::{FileConfig, Settings, SinkConfig};
use delayq_service::config::{DeploymentConfig, HumanDuration};
use delayq_tests::deadline::{LONG, wait_until};
use delayq_tests::etcd_server::EtcdCluster;
use delayq_tests::invariants::Permit;
use delayq_tests::shared::etcd_endpoints;
use delayq_tests::stall::Stall;
use delayq_tests::timing::conclusive;
use std::path::Path;
use std::time::{Duration, Instant};

/// The least lease time there is: a killed forwarder's shards wait for it.
pub(crate) const LEASE: Duration = Duration::from_secs(2);

/// A member of the forwarders of this stage.
pub(crate) fn member(stage: &Stage, endpoints: &[String], name: &str) -> ClusterConfig {
    let etcd = EtcdConfig { lease_ttl: LEASE.into(), ..EtcdConfig::at(endpoints).unwrap() };
    let namespace = stage.namespace.parse().unwrap();
    let deployment = DeploymentConfig { namespace, shards: stage.client.shards() };
    ClusterConfig::new(&etcd, &deployment, Role::Forwarder, name)
}

/// Settings of a forwarder that writes to a file of its own.
pub(crate) fn settings(stage: &Stage, folder: &Path, name: &str) -> Settings {
    let file = FileConfig { dir: folder.to_owned(), rotate_at: None };
    let sink = SinkConfig { file: Some(file), in_flight: 100, batch: 10, ..SinkConfig::default() };
    let mut settings = stage.settings([("f", sink)], vec![route("t", "f", name)]);
    settings.forwarder.lease = HumanDuration::from_secs(1);
    settings
}

pub(crate) fn seen(folder: &Path) -> Vec<Seen> {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let texts = files.map(|path| std::fs::read_to_string(path).unwrap());
    texts.flat_map(|text| text.lines().map(|line| record("f", line)).collect::<Vec<_>>()).collect()
}

pub(crate) async fn takes_from(running: &Running, shards: f64) {
    let what = format!("{shards} shards");
    wait_until(&what, LONG, || async { running.metric("delayq_forwarder_shards") == shards }).await;
}

fn delivered(running: &Running) -> f64 {
    running.metric("delayq_forwarder_outcomes_total{sink=\"f\",outcome=\"delivered\"}")
}

#[tokio::test(flavor = "multi_thread")]
async fn two_that_compete_deliver_each_message_once() {
    let (stage, folder) = (Stage::new().await, tempfile::tempdir().unwrap());
    let one = stage.forward(settings(&stage, folder.path(), "one")).await.unwrap();
    let other = stage.forward(settings(&stage, folder.path(), "other")).await.unwrap();
    stage.put("t", 0, 3000, 100).await;
    stage.drained("t").await;
    assert_eq!(one.metric("delayq_forwarder_shards"), 4.0);
    one.stop().await;
    other.stop().await;
    stage.check("t", seen(folder.path()), &Permit::default()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_that_share_by_plan_have_half_each_and_one_takes_over_from_a_killed_one() {
    conclusive(async || {
        let (stage, folder) = (Stage::new().await, tempfile::tempdir().unwrap());
        let endpoints = etcd_endpoints().await;
        let by_plan = async |name: &str| {
            let group = member(&stage, endpoints, name);
            stage.forward_by_plan(settings(&stage, folder.path(), name), group).await.unwrap()
        };
        let (one, other) = (by_plan("one").await, by_plan("other").await);
        takes_from(&one, 2.0).await;
        takes_from(&other, 2.0).await;
        stage.put("t", 0, 400, 100).await;
        stage.drained("t").await;
        assert_eq!((delivered(&one) > 0.0, delivered(&other) > 0.0), (true, true));
        stage.put("t", 400, 3000, 100).await;
        wait_until("some deliveries", LONG, || async { delivered(&other) > 400.0 }).await;
        let (killed, stall) = (Instant::now(), Stall::watch());
        other.kill().await;
        takes_from(&one, 4.0).await;
        let timing = stall.judge("the take-over", killed.elapsed(), LEASE + Duration::from_secs(2));
        stage.drained("t").await;
        // One that comes back has its half again, and one that stops gives its own away at once.
        let third = by_plan("third").await;
        takes_from(&third, 2.0).await;
        takes_from(&one, 2.0).await;
        let stopped = Instant::now();
        one.stop().await;
        takes_from(&third, 4.0).await;
        let timing = timing.and(stall.judge("the hand-over", stopped.elapsed(), LEASE));
        stage.put("t", 3400, 100, 100).await;
        stage.drained("t").await;
        third.stop().await;
        let permit = Permit { duplicates: 100, ..Permit::default() };
        stage.check("t", seen(folder.path()), &permit).await;
        timing
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_etcd_is_silent_each_takes_from_every_shard() {
    let (stage, folder, etcd) =
        (Stage::new().await, tempfile::tempdir().unwrap(), EtcdCluster::start_one().await);
    let by_plan = async |name: &str| {
        let group = member(&stage, &etcd.endpoints(), name);
        stage.forward_by_plan(settings(&stage, folder.path(), name), group).await.unwrap()
    };
    let (one, other) = (by_plan("one").await, by_plan("other").await);
    takes_from(&one, 2.0).await;
    takes_from(&other, 2.0).await;
    etcd.freeze();
    takes_from(&one, 4.0).await;
    // Nobody can say that it died, and nothing waits for that.
    other.kill().await;
    stage.put("t", 0, 1000, 100).await;
    stage.drained("t").await;
    etcd.thaw();
    let third = by_plan("third").await;
    takes_from(&third, 2.0).await;
    takes_from(&one, 2.0).await;
    stage.put("t", 1000, 100, 100).await;
    stage.drained("t").await;
    one.stop().await;
    third.stop().await;
    stage.check("t", seen(folder.path()), &Permit::default()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn both_ways_of_sharing_follow_a_growth() {
    for planned in [false, true] {
        let (stage, folder) = (Stage::new().await, tempfile::tempdir().unwrap());
        let settings = settings(&stage, folder.path(), "one");
        let running = match planned {
            false => stage.forward(settings).await.unwrap(),
            true => {
                let group = member(&stage, etcd_endpoints().await, "one");
                stage.forward_by_plan(settings, group).await.unwrap()
            }
        };
        takes_from(&running, 4.0).await;
        Admin::new(stage.client.clone()).grow(ShardCount::new(8).unwrap(), |_| {}).await.unwrap();
        takes_from(&running, 8.0).await;
        // Due at once, they are ready without a pump, which has the old shards only.
        stage.put("t", 0, 400, 100).await;
        stage.drained("t").await;
        running.stop().await;
        stage.check("t", seen(folder.path()), &Permit::default()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forwarder_by_plan_that_starts_while_etcd_is_away_takes_from_every_shard_until_it_joins() {
    let (stage, folder) = (Stage::new().await, tempfile::tempdir().unwrap());
    let mut etcd = EtcdCluster::start_one().await;
    let group = |name| member(&stage, &etcd.endpoints(), name);
    let (early, late) = (group("early"), group("late"));
    etcd.member(0).kill().await;
    let early = stage.forward_by_plan(settings(&stage, folder.path(), "early"), early).await.unwrap();
    takes_from(&early, 4.0).await;
    stage.put("t", 0, 400, 100).await;
    stage.drained("t").await;
    etcd.member(0).resume().await;
    let late = stage.forward_by_plan(settings(&stage, folder.path(), "late"), late).await.unwrap();
    takes_from(&early, 2.0).await;
    takes_from(&late, 2.0).await;
    early.stop().await;
    late.stop().await;
    stage.check("t", seen(folder.path()), &Permit::default()).await;
}
