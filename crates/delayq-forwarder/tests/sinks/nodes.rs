//! A forwarder over Redises that have lost shards.

use crate::stage::{Stage, route};
use delayq::Admin;
use delayq::protocol::ShardId;
use delayq_forwarder::{FileConfig, SinkConfig};
use delayq_tests::deadline::{LONG, wait_until};
use delayq_tests::redis_nodes::RedisNodes;
use delayq_tests::redis_server::RedisServer;
use delayq_tests::stall::Stall;
use delayq_tests::timing::{Timing, conclusive};
use std::path::Path;
use std::time::{Duration, Instant};

const MESSAGES: u16 = 20;
const DELIVERED: &str = "delayq_forwarder_outcomes_total{sink=\"f\",outcome=\"delivered\"}";
/// Far longer than a delivery takes, and shorter than the rest of a forwarder after a Redis error.
const SOON: Duration = Duration::from_millis(100);

fn sink(folder: &Path) -> SinkConfig {
    let file = FileConfig { dir: folder.to_owned(), rotate_at: None };
    SinkConfig { file: Some(file), ..SinkConfig::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn emptied_nodes_are_named_the_others_are_served_and_all_are_once_they_have_their_shards() {
    let (nodes, folder) = (RedisNodes::start(2).await, tempfile::tempdir().unwrap());
    let stage = Stage::of(nodes.settings()).await;
    let settings = stage.settings([("f", sink(folder.path()))], vec![route("t", "f", "all")]);
    let running = stage.forward(settings).await.unwrap();
    let shards = stage.client.shards();
    let of_others = |id: &String| !nodes.shards_of(0).contains(&shards.shard_of_name(id).get());
    let ids: Vec<String> = (0..).map(|n| n.to_string()).filter(of_others).take(MESSAGES.into()).collect();
    nodes.servers[0].command::<()>(&["FLUSHALL"]).await;
    wait_until("the missing shards to be named", LONG, || async {
        running.readiness.unready().iter().any(|unready| unready.reason.contains("does not exist"))
    })
    .await;
    stage.put_bodies("t", ids.into_iter().map(|id| (id, b"x".to_vec())).collect()).await;
    wait_until("the deliveries", LONG, || async { running.metric(DELIVERED) >= f64::from(MESSAGES) }).await;

    assert_eq!(Admin::new(stage.client.clone()).init().await.unwrap(), 2);
    wait_until("the forwarder to be ready", LONG, || async { running.readiness.unready().is_empty() }).await;
    for server in &nodes.servers {
        server.command::<()>(&["FLUSHALL"]).await;
    }
    wait_until("the missing shards to be named", LONG, || async {
        running.readiness.unready().iter().any(|unready| unready.reason.contains("does not exist"))
    })
    .await;
    assert_eq!(Admin::new(stage.client.clone()).init().await.unwrap(), 6);
    wait_until("the forwarder to be ready", LONG, || async { running.readiness.unready().is_empty() }).await;
}

async fn beside_a_missing_shard() -> Timing {
    let (server, folder) = (RedisServer::private().await, tempfile::tempdir().unwrap());
    let stage = Stage::at(&server.url()).await;
    let settings = stage.settings([("f", sink(folder.path()))], vec![route("t", "f", "all")]);
    let running = stage.forward(settings).await.unwrap();
    let [meta, aside] = ["meta", "aside"].map(|name| format!("{{{}:0}}:{name}", stage.namespace));
    server.command::<()>(&["RENAME", &meta, &aside]).await;
    wait_until("the missing shard to be named", LONG, || async {
        running.readiness.unready().iter().any(|unready| unready.reason.contains("shard 0 does not exist"))
    })
    .await;
    let (shards, first) = (stage.client.shards(), ShardId::new(0));
    let ids = (0..).map(|n| n.to_string()).filter(|id| shards.shard_of_name(id) != first);
    let (stall, mut took) = (Stall::watch(), Vec::new());
    for id in ids.take(MESSAGES.into()) {
        let put = Instant::now();
        stage.put_bodies("t", vec![(id, b"x".to_vec())]).await;
        let count = took.len() as f64;
        wait_until("the delivery", LONG, || async { running.metric(DELIVERED) > count }).await;
        took.push(put.elapsed());
    }
    took.sort_unstable();
    server.command::<()>(&["RENAME", &aside, &meta]).await;
    wait_until("the forwarder to be ready", LONG, || async { running.readiness.unready().is_empty() }).await;
    let of_first = (0..).map(|n| format!("of-first-{n}")).find(|id| shards.shard_of_name(id) == first);
    stage.put_bodies("t", vec![(of_first.unwrap(), b"x".to_vec())]).await;
    wait_until("its delivery", LONG, || async { running.metric(DELIVERED) > f64::from(MESSAGES) }).await;
    running.stop().await;
    println!("beside a missing shard, a message is delivered within {:?} (median)", took[took.len() / 2]);
    stall.judge("a delivery beside a missing shard", took[took.len() / 2], SOON)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_shard_does_not_hold_up_the_others_of_its_redis() {
    conclusive(beside_a_missing_shard).await;
}
