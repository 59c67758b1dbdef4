//! The cost and the completeness of a poll with many topics.

use crate::stage::{Stage, record, route, topic};
use delayq::Admin;
use delayq::admin::Policy;
use delayq_forwarder::{FileConfig, SinkConfig};
use delayq_tests::deadline::{LONG, wait_until};
use delayq_tests::invariants::Permit;
use delayq_tests::redis_monitor::{RedisMonitor, Seen};
use delayq_tests::redis_server::RedisServer;
use std::path::Path;

const SHARDS: usize = 4;

fn file(dir: &Path) -> SinkConfig {
    SinkConfig { file: Some(FileConfig { dir: dir.to_owned(), rotate_at: None }), ..SinkConfig::default() }
}

async fn make_topics(stage: &Stage, count: usize) {
    let admin = Admin::new(stage.client.clone());
    for n in 0..count {
        let policy = Policy { max_attempts: Some(7), ..Policy::default() };
        admin.topic(&topic(&format!("t-{n}"))).set_policy(&policy).await.unwrap();
    }
}

async fn put_in_each(stage: &Stage, first: usize, topics: usize) {
    for n in 0..topics {
        stage.put(&format!("t-{n}"), first + n, 1, 10).await;
    }
}

fn asks_for_topics(seen: &Seen) -> bool {
    seen.name == "evalsha" && seen.args.len() == 6 && !matches!(seen.text(5), Some("0" | "TIME"))
}

/// Recognises a call of `reserve`: script, 2, two keys, layout, n, bytes, lease, topics.
fn reserves(seen: &Seen) -> bool {
    seen.name == "evalsha" && seen.text(8).is_some_and(|name| name.starts_with("t-"))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_forwarder_of_many_topics_asks_by_shards_and_not_by_topics() {
    const TOPICS: usize = 300;
    let server = RedisServer::private().await;
    let (stage, folder) = (Stage::at(&server.url()).await, tempfile::tempdir().unwrap());
    make_topics(&stage, TOPICS).await;
    let lanes = stage.settings([("f", file(folder.path()))], vec![route("*", "f", "{topic}")]);
    let running = stage.forward(lanes).await.unwrap();
    put_in_each(&stage, 0, TOPICS).await;
    wait_until("every lane at work", LONG, || async {
        running.metric("delayq_forwarder_outcomes_total{sink=\"f\",outcome=\"delivered\"}") >= TOPICS as f64
    })
    .await;
    let monitor = RedisMonitor::start(&server).await;
    let (monitor, server) = (&monitor, &server);
    let count =
        async move |of: fn(&Seen) -> bool| monitor.seen(server).await.iter().filter(|seen| of(seen)).count();
    wait_until("six polls", LONG, || async { count(asks_for_topics).await >= 6 * SHARDS }).await;
    let (polled, reserved) = (count(asks_for_topics).await, count(reserves).await);
    running.stop().await;
    // With a lane per topic each poll would be 1,200 calls.
    assert!(reserved <= TOPICS, "{reserved} calls of reserve over {polled} of overview");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_destination_of_more_topics_than_a_call_takes_gets_every_message() {
    const TOPICS: usize = 600;
    let (stage, folder) = (Stage::new().await, tempfile::tempdir().unwrap());
    make_topics(&stage, TOPICS).await;
    put_in_each(&stage, 0, TOPICS).await;
    let one_lane = stage.settings([("f", file(folder.path()))], vec![route("*", "f", "all")]);
    let running = stage.forward(one_lane).await.unwrap();
    let delivered = |count: usize| {
        let running = &running;
        wait_until("every message", LONG, move || async move {
            running.metric("delayq_forwarder_outcomes_total{sink=\"f\",outcome=\"delivered\"}")
                >= count as f64
        })
    };
    delivered(TOPICS).await;
    put_in_each(&stage, TOPICS, TOPICS).await;
    delivered(2 * TOPICS).await;
    running.stop().await;
    let text = std::fs::read_to_string(folder.path().join("all")).unwrap();
    let seen = text.lines().map(|line| record("all", line)).collect();
    stage.check("t-0", seen, &Permit::default()).await;
}
