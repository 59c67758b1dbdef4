//! Several forwarders on one deployment, and one forwarder on a growing deployment.

use crate::stage::{Running, Seen, Stage, record, route};
use delayq::{Admin, ShardCount};
use delayq_forwarder::{FileConfig, Settings, SinkConfig};
use delayq_service::config::HumanDuration;
use delayq_tests::deadline::{LONG, wait_until};
use delayq_tests::invariants::Permit;
use std::path::Path;

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
async fn a_forwarder_follows_a_growth() {
    let (stage, folder) = (Stage::new().await, tempfile::tempdir().unwrap());
    let running = stage.forward(settings(&stage, folder.path(), "one")).await.unwrap();
    takes_from(&running, 4.0).await;
    Admin::new(stage.client.clone()).shards().grow(ShardCount::new(8).unwrap(), |_| {}).await.unwrap();
    takes_from(&running, 8.0).await;
    stage.put("t", 0, 400, 100).await;
    stage.drained("t").await;
    running.stop().await;
    stage.check("t", seen(folder.path()), &Permit::default()).await;
}
