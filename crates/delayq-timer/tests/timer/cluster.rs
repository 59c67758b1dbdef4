//! A timer over a Redis Cluster.

use crate::stand::start;
use delayq::Namespace;
use delayq::protocol::{Keys, ShardId};
use delayq_tests::deployment::{created, settings};
use delayq_tests::redis_cluster::RedisCluster;
use delayq_timer::{Membership, TimerConfig};

const SHARDS: u16 = 6;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_single_timer_begins_while_a_master_is_silent_and_takes_its_shards_once_it_answers() {
    let cluster = RedisCluster::start().await;
    let (client, _, _) = created(settings(cluster.url(), SHARDS)).await;
    let slot = Keys::new(Namespace::default()).slot(ShardId::new(0));
    let silent = &cluster.nodes[cluster.master_of(slot).await];
    silent.freeze();
    let timer = start(TimerConfig::default(), client, Membership::single("one")).await.unwrap();
    silent.thaw();
    timer.owns(SHARDS).await;
    timer.is_ready().await;
    timer.stop().await;
}
