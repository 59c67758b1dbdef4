//! Workers that pump, next to timers: timers take over, and give back, without an outage.

use crate::fleet::Fleet;
use crate::stand::Stand;
use delayq::protocol::{Owner, ShardId};
use delayq::{Client, Consumer, ConsumerOptions, Message, Topic, UnixMillis};
use delayq_tests::clock_shim::ClockShim;
use delayq_tests::deadline::{LONG, wait_until, within};
use delayq_tests::deployment::settings;
use delayq_tests::redis_server::{RedisOptions, RedisServer};
use delayq_tests::stall::Stall;
use delayq_tests::timing::conclusive;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::task::JoinHandle;

const SHARDS: u16 = 4;
/// Messages of the load: one each 4 ms, due 150 ms after it was put.
const LOAD: usize = 2_000;

fn topic() -> Topic {
    Topic::new("notices").unwrap()
}

fn worker(stand: &Stand) -> Consumer {
    let client = Client::new(settings(stand.server.url(), SHARDS));
    Consumer::start(client, ConsumerOptions::new([topic()]).pump(true)).unwrap()
}

/// Waits until every shard has an owner of this kind.
async fn pumped_by(stand: &Stand, workers: bool) {
    wait_until("the owners", LONG, async || {
        let shards: Vec<ShardId> = stand.client.shards().shards().collect();
        let seen = stand.admin.shards().overview_of(&shards).await;
        seen.into_iter().all(|shard| {
            let owner = shard.unwrap().owner;
            !owner.is_empty() && owner.starts_with("worker/") == workers
        })
    })
    .await;
}

/// Consumes the load; returns the largest lateness.
fn consume(stand: &Stand, mut consumer: Consumer) -> JoinHandle<(Consumer, Duration)> {
    let clock = Owner::new(stand.client.clone());
    tokio::spawn(async move {
        let (mut arrived, mut late) = (BTreeMap::new(), 0);
        while arrived.len() < LOAD {
            let delivery = within("the next message", LONG, consumer.next()).await.unwrap();
            let now = clock.redis_time(ShardId::new(0)).await.unwrap().millis().get();
            let due = delivery.envelope.due.get();
            assert!(now >= due, "it came {} ms early", due - now);
            late = late.max(now - due);
            *arrived.entry(delivery.id.to_string()).or_insert(0) += 1;
            delivery.ack().await.unwrap();
        }
        assert!(arrived.values().all(|&times| times == 1), "a message came twice");
        (consumer, Duration::from_millis(late))
    })
}

async fn load(stand: &Stand) {
    for n in (0..LOAD).step_by(10) {
        let due = UnixMillis::new(stand.now_ms().await + 150);
        let message = |n: usize| Message::new(topic(), "x").at(due).id(format!("load-{n}")).unwrap();
        stand.deployment.put((n..n + 10).map(message)).await;
        tokio::time::sleep(Duration::from_millis(40)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_takes_over_from_a_worker_that_pumps_and_gives_back_without_an_outage() {
    conclusive(async || {
        let (fleet, stall) = (Fleet::with(SHARDS).await, Stall::watch());
        let consumer = worker(&fleet.stand);
        pumped_by(&fleet.stand, true).await;
        let consumed = consume(&fleet.stand, consumer);
        let changes = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let timer = fleet.timer("one").await;
            timer.owns(SHARDS).await;
            pumped_by(&fleet.stand, false).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
            timer.stop().await;
            pumped_by(&fleet.stand, true).await;
        };
        tokio::join!(load(&fleet.stand), changes);
        let (consumer, late) = within("every message", LONG, consumed).await.unwrap();
        consumer.stop().await;
        stall.judge("late", late, Duration::from_millis(500))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_single_timer_takes_over_from_a_worker_at_once_and_the_worker_from_a_timer_that_was_killed() {
    let stand = Stand::new(SHARDS).await;
    let mut consumer = worker(&stand);
    pumped_by(&stand, true).await;
    let timer = stand.timer().await;
    pumped_by(&stand, false).await;
    timer.kill().await;
    // Within the timer's lock of 15 s, and a second.
    let due = stand.now_ms().await + 100;
    stand.put([due]).await;
    let delivery = within("a message", LONG, consumer.next()).await.unwrap();
    let late = stand.now_ms().await - due;
    assert!((1_000..20_000).contains(&late), "{late} ms late");
    delivery.ack().await.unwrap();
    consumer.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_holds_the_shards_of_a_redis_whose_clock_steps_ahead_until_it_is_steady() {
    let clock = ClockShim::new();
    let server = RedisServer::private_with(RedisOptions::default().clock(&clock)).await;
    let stand = Stand::on(server, SHARDS).await;
    let mut consumer = worker(&stand);
    pumped_by(&stand, true).await;
    let hour = 3_600_000;
    let now = stand.now_ms().await;
    stand.put([now + hour / 2]).await;
    clock.set_offset_ms(hour as i64);
    stand.all_held(true).await;
    assert_eq!(stand.ready().await, 0, "by no clock that jumped is anything due");
    stand.all_held(false).await;
    pumped_by(&stand, true).await;
    let delivery = within("the message, once the clock was steady", LONG, consumer.next()).await.unwrap();
    delivery.ack().await.unwrap();
    consumer.stop().await;
}
