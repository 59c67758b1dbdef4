//! A forwarder over several independent Redises.

use crate::stage::{Stage, route};
use delayq::Admin;
use delayq_forwarder::{FileConfig, SinkConfig};
use delayq_tests::deadline::{LONG, wait_until};
use delayq_tests::redis_nodes::RedisNodes;

const MESSAGES: u16 = 20;

#[tokio::test(flavor = "multi_thread")]
async fn emptied_nodes_are_named_the_others_are_served_and_all_are_once_they_have_their_shards() {
    let (nodes, folder) = (RedisNodes::start(2).await, tempfile::tempdir().unwrap());
    let stage = Stage::of(nodes.settings()).await;
    let file = FileConfig { dir: folder.path().to_owned(), rotate_at: None };
    let sink = SinkConfig { file: Some(file), ..SinkConfig::default() };
    let running = stage.forward(stage.settings([("f", sink)], vec![route("t", "f", "all")])).await.unwrap();
    let shards = stage.client.shards();
    let of_others = |id: &String| !nodes.shards_of(0).contains(&shards.shard_of_name(id).get());
    let ids: Vec<String> = (0..).map(|n| n.to_string()).filter(of_others).take(MESSAGES.into()).collect();
    nodes.servers[0].command::<()>(&["FLUSHALL"]).await;
    wait_until("the missing shards to be named", LONG, || async {
        running.readiness.unready().iter().any(|unready| unready.reason.contains("does not exist"))
    })
    .await;
    stage.put_bodies("t", ids.into_iter().map(|id| (id, b"x".to_vec())).collect()).await;
    let delivered = "delayq_forwarder_outcomes_total{sink=\"f\",outcome=\"delivered\"}";
    wait_until("the deliveries", LONG, || async { running.metric(delivered) >= f64::from(MESSAGES) }).await;

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
