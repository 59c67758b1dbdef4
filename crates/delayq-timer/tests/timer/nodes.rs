//! A timer over several independent Redises.

use crate::stand::{Running, start};
use delayq::{Admin, Client, Settings, ShardCount};
use delayq_service::Fault;
use delayq_tests::deadline::{LONG, wait_until};
use delayq_tests::deployment::created;
use delayq_tests::redis_nodes::{RedisNodes, settings};
use delayq_timer::{Membership, TimerConfig};

async fn single(settings: Settings) -> Result<Running, Fault> {
    start(TimerConfig::default(), Client::new(settings), Membership::single("one")).await
}

async fn says(timer: &Running, why: &str) {
    let is_said = async || timer.readiness.unready().iter().any(|unready| unready.reason.contains(why));
    wait_until(why, LONG, is_said).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_single_timer_begins_without_the_shards_of_an_emptied_node_and_takes_them_once_they_are_created() {
    let nodes = RedisNodes::start(2).await;
    let (_, admin, _) = created(nodes.settings()).await;
    nodes.servers[0].command::<()>(&["FLUSHALL"]).await;
    let timer = single(nodes.settings()).await.unwrap();
    timer.owns(4).await;
    says(&timer, "shard 0 does not exist").await;
    assert_eq!(admin.init().await.unwrap(), 2);
    timer.owns(6).await;
    timer.is_ready().await;
    timer.stop().await;
    for server in &nodes.servers {
        server.command::<()>(&["FLUSHALL"]).await;
    }
    let refused = single(nodes.settings()).await.err().unwrap().to_string();
    assert!(refused.starts_with("DQ-T002"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_single_timer_without_the_node_of_a_growth_begins_with_the_shards_of_the_others() {
    let nodes = RedisNodes::start(2).await;
    let old = settings(&nodes.rows()[..2], 4);
    let _ = created(old.clone()).await;
    let prepared = Admin::new(Client::new(settings(&nodes.rows(), 4)));
    prepared.grow(ShardCount::new(6).unwrap(), |_| ()).await.unwrap();
    let timer = single(old).await.unwrap();
    timer.owns(4).await;
    says(&timer, "shard 4 has no node").await;
    timer.stop().await;
}
