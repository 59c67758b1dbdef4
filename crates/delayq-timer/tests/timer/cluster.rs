//! A timer over a Redis Cluster.

use crate::bounds::SLOT_MOVED;
use crate::fleet::TIMES;
use crate::stand::{Became, polling, read, start};
use delayq::protocol::{Keys, ShardId};
use delayq::{Group, Message, Namespace, Producer, ShardCount, Topic, UnixMillis};
use delayq_service::config::HumanDuration;
use delayq_tests::clock_shim::ClockShim;
use delayq_tests::deadline::{LONG, wait_until};
use delayq_tests::deployment::{created, settings};
use delayq_tests::redis_cluster::RedisCluster;
use delayq_tests::stall::Stall;
use delayq_tests::timing::{Timing, conclusive};
use delayq_timer::{Membership, TimerConfig};
use std::time::Duration;

const SHARDS: u16 = 6;
/// Enough that each shard has some.
const MESSAGES: u64 = 100;
/// Enough that a move of their shard lasts longer than a timer's wait before its next try.
const FAR_AWAY: u64 = 20_000;
/// One due in each 10 ms, before, during and after a move.
const NEAR: u64 = 600;

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
    let all = async || admin.topic(&topic).count().await.is_ok_and(|numbers| numbers.ready == MESSAGES);
    wait_until("every shard to be pumped", LONG, all).await;
    timer.stop().await;
}

/// Puts messages with these due times into shard 0; an id contains the due time, and a number from `first` on.
async fn put_into_first(producer: &Producer, first: usize, due: impl IntoIterator<Item = u64>) {
    let shards = ShardCount::new(SHARDS).unwrap();
    let mut names = (0..).map(|n| format!("group-{n}"));
    let group = Group::new(names.find(|name| shards.shard_of_name(name).get() == 0).unwrap()).unwrap();
    let message = |(n, due): (usize, u64)| {
        let message = Message::new(Topic::new("notices").unwrap(), "x").at(UnixMillis::new(due));
        message.id(format!("{due}-{}", first + n)).unwrap().with_group(group.clone())
    };
    for put in producer.put_many(due.into_iter().enumerate().map(message).collect()).await {
        assert!(put.unwrap().outcome.is_accepted());
    }
}

async fn moved() -> Timing {
    let cluster = RedisCluster::start().await;
    let (client, _, producer) = created(settings(cluster.url(), SHARDS)).await;
    let far = cluster.nodes[0].now_ms().await + 100_000_000;
    put_into_first(&producer, 0, (0..FAR_AWAY).map(|n| far + n)).await;
    let timer = start(TimerConfig::default(), client, Membership::single("one")).await.unwrap();
    timer.owns(SHARDS).await;
    let stall = Stall::watch();
    let (mut timing, mut count) = (Timing::Kept, 0);
    for _ in 0..2 {
        let soon = cluster.nodes[0].now_ms().await + 500;
        put_into_first(&producer, count, (0..NEAR).map(|n| soon + 10 * n)).await;
        let began = cluster.nodes[0].now_ms().await;
        let to = (cluster.master_of(slot(0)).await + 1) % 3;
        cluster.move_slot(slot(0), to).await;
        let ended = cluster.nodes[0].now_ms().await;
        let ready = async || {
            let words = ["LRANGE", "{dq:0}:r:1", "0", "-1"];
            cluster.nodes[to].command::<Vec<Vec<u8>>>(&words).await
        };
        count += usize::try_from(NEAR).unwrap();
        wait_until("all to be ready", LONG, async || ready().await.len() >= count).await;
        let mut became: Vec<Became> = ready().await.iter().map(|entry| read(entry)).collect();
        became.sort();
        let is_each_once = became.windows(2).all(|pair| pair[0].id != pair[1].id);
        assert!(is_each_once && became.len() == count, "more became ready than was put");
        // A message due during the move is ready after the move.
        let late = became.iter().filter(|became| became.due_ms >= began).map(|became| {
            let late = became.late_us();
            late.min(became.ready_us.saturating_sub(ended * 1000))
        });
        let late = Duration::from_micros(late.max().expect("some were due"));
        println!("a move of {} ms: late by {late:?} at most since its end", ended - began);
        timing = timing.and(stall.judge("ready after a move", late, SLOT_MOVED.late(TIMES)));
    }
    timer.stop().await;
    timing
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_due_while_its_slot_moves_is_ready_soon_after_the_move() {
    conclusive(moved).await;
}
