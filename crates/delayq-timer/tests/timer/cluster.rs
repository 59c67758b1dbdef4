//! A timer over a Redis Cluster.

use crate::stand::{polling, start};
use delayq::protocol::{Keys, ShardId};
use delayq::{Message, Namespace, Topic};
use delayq_service::config::HumanDuration;
use delayq_tests::clock_shim::ClockShim;
use delayq_tests::deadline::{LONG, wait_until};
use delayq_tests::deployment::{created, settings};
use delayq_tests::redis_cluster::RedisCluster;
use delayq_timer::{Membership, TimerConfig};
use std::time::Duration;

const SHARDS: u16 = 6;
/// So many that each shard has some.
const MESSAGES: u64 = 100;

fn slot(shard: u16) -> u16 {
    Keys::new(Namespace::default()).slot(ShardId::new(shard))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_single_timer_begins_while_a_master_is_silent_and_takes_its_shards_once_it_answers() {
    let cluster = RedisCluster::start().await;
    let (client, _, _) = created(settings(cluster.url(), SHARDS)).await;
    let silent = &cluster.nodes[cluster.master_of(slot(0)).await];
    silent.freeze();
    let timer = start(TimerConfig::default(), client, Membership::single("one")).await.unwrap();
    silent.thaw();
    timer.owns(SHARDS).await;
    timer.is_ready().await;
    timer.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shards_that_are_held_go_on_at_the_node_that_they_move_to() {
    let clocks = [(); 3].map(|()| ClockShim::new());
    let cluster = RedisCluster::with_clocks(&clocks).await;
    let (client, admin, producer) = created(settings(cluster.url(), SHARDS)).await;
    let steady = HumanDuration::from_secs(5);
    let config = TimerConfig { clock_steady: steady, ..polling(Duration::from_millis(500)) };
    let timer = start(config, client, Membership::single("one")).await.unwrap();
    timer.owns(SHARDS).await;
    timer.is_ready().await;
    let jumped = cluster.master_of(slot(0)).await;
    clocks[jumped].set_offset_ms(5_000);
    timer.reaches("delayq_timer_clock_held", 1.0).await;
    for shard in 0..SHARDS {
        if cluster.master_of(slot(shard)).await == jumped {
            cluster.move_slot(slot(shard), (jumped + 1) % 3).await;
        }
    }
    timer.reaches("delayq_timer_clock_held", 0.0).await;
    timer.is_ready().await;
    let topic = Topic::new("notices").unwrap();
    for n in 0..MESSAGES {
        let message = Message::new(topic.clone(), "x").id(format!("notice-{n}")).unwrap();
        producer.put(message.after(Duration::from_secs(1))).await.unwrap();
    }
    let all = async || admin.count(&topic).await.is_ok_and(|numbers| numbers.ready == MESSAGES);
    wait_until("every shard to be pumped", LONG, all).await;
    timer.stop().await;
}
