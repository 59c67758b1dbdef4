//! Consumers that pump: without a timer, by locks that they share.

use delayq::protocol::{Claimed, Owner, PumpWord, ShardId};
use delayq::{Client, Consumer, ConsumerOptions, Message, Topic, UnixMillis};
use delayq_tests::deadline::{LONG, wait_until, within};
use delayq_tests::deployment::{Deployment, settings};
use delayq_tests::redis_server::RedisServer;
use delayq_tests::stall::Stall;
use delayq_tests::timing::conclusive;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const SHARDS: u16 = 4;

fn topic() -> Topic {
    Topic::new("orders").unwrap()
}

fn pumping(client: &Client) -> Consumer {
    Consumer::start(client.clone(), ConsumerOptions::new([topic()]).pump(true)).unwrap()
}

type Alone = Deployment<RedisServer>;

async fn alone(shards: u16) -> Alone {
    Deployment::on(RedisServer::private().await, shards).await
}

/// Puts messages due at these times after now, each with its number as payload.
async fn put(deployment: &Alone, after_ms: impl Iterator<Item = u64>) -> usize {
    let now = deployment.now().await.get();
    let message = |(n, ms): (usize, u64)| Message::new(topic(), n.to_string()).at(UnixMillis::new(now + ms));
    let messages: Vec<Message> = after_ms.enumerate().map(message).collect();
    let count = messages.len();
    deployment.put(messages).await;
    count
}

/// What arrived: the payloads, each with how often, and the largest lateness by Redis's clock.
#[derive(Default)]
struct Arrived {
    times: BTreeMap<String, usize>,
    late: Duration,
}

impl Arrived {
    async fn take(&mut self, deployment: &Alone, delivery: delayq::Delivery) {
        let read = deployment.now().await;
        let due = delivery.envelope.due;
        assert!(read >= due, "it came {} ms early", due.get() - read.get());
        self.late = self.late.max(Duration::from_millis(read.get() - due.get()));
        *self.times.entry(String::from_utf8_lossy(&delivery.envelope.payload).into_owned()).or_default() += 1;
        delivery.ack().await.unwrap();
    }

    fn is_complete(&self, count: usize) -> bool {
        self.times.len() == count && self.times.values().all(|&times| times == 1)
    }
}

/// The owner of each shard; empty if the shard was given back.
async fn owners(deployment: &Alone) -> Vec<String> {
    let mut owners = Vec::new();
    for shard in deployment.client.shards().shards() {
        let meta = format!("{{{}:{shard}}}:meta", deployment.client.namespace());
        let (owner, until): (Option<String>, Option<u64>) =
            deployment.server.command(&["HMGET", &meta, "owner", "owner_until"]).await;
        owners.push(if until.unwrap_or(0) > 1 { owner.unwrap_or_default() } else { String::new() });
    }
    owners
}

async fn owned(deployment: &Alone) {
    let by_worker = async || owners(deployment).await.iter().all(|owner| owner.starts_with("worker/"));
    wait_until("every shard to be owned by a worker", LONG, by_worker).await;
}

async fn delayed(deployment: &Alone) -> u64 {
    deployment.admin.topic(&topic()).count().await.unwrap().delayed
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_that_pumps_delivers_on_time_without_a_timer_also_after_a_flush_of_scripts() {
    conclusive(async || {
        let (deployment, stall) = (alone(SHARDS).await, Stall::watch());
        let mut consumer = pumping(&deployment.client);
        owned(&deployment).await;
        let (count, mut arrived) =
            (put(&deployment, (0..500).map(|n| 300 + 2 * n)).await, Arrived::default());
        let started = Instant::now();
        let mut flushed = false;
        while arrived.times.len() < count {
            let delivery = within("the next message", LONG, consumer.next()).await.unwrap();
            arrived.take(&deployment, delivery).await;
            if !flushed && started.elapsed() > Duration::from_millis(700) {
                let () = deployment.server.command(&["SCRIPT", "FLUSH"]).await;
                flushed = true;
            }
        }
        assert!(arrived.is_complete(count) && flushed);
        consumer.stop().await;
        stall.judge("late", arrived.late, Duration::from_millis(250))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_that_stops_hands_its_shards_to_another_at_once() {
    conclusive(async || {
        let (deployment, stall) = (alone(SHARDS).await, Stall::watch());
        let first = pumping(&deployment.client);
        owned(&deployment).await;
        let before = owners(&deployment).await;
        let second = pumping(&Client::new(settings(deployment.server.url(), SHARDS)));
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(owners(&deployment).await, before, "the lock of the first one lasts");
        let began = Instant::now();
        first.stop().await;
        wait_until("the second one to take over", LONG, async || {
            owners(&deployment).await.iter().all(|owner| !owner.is_empty() && !before.contains(owner))
        })
        .await;
        let took = began.elapsed();
        second.stop().await;
        assert_eq!(owners(&deployment).await.concat(), "", "nobody owns what was given back");
        stall.judge("handed over", took, Duration::from_millis(100))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_consumer_stops_pumping_and_gives_its_shards_back() {
    let deployment = alone(SHARDS).await;
    let consumer = pumping(&deployment.client);
    owned(&deployment).await;
    drop(consumer);
    wait_until("the shards to be given back", LONG, async || owners(&deployment).await.concat().is_empty())
        .await;
    put(&deployment, [0].into_iter()).await;
    put(&deployment, [50].into_iter()).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(delayed(&deployment).await, 1, "nobody pumps");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_takes_the_shards_of_a_worker_which_gets_them_back_when_the_timer_gives_them_back() {
    let deployment = alone(SHARDS).await;
    let mut consumer = pumping(&deployment.client);
    owned(&deployment).await;
    let (timer, shards) =
        (Owner::new(deployment.client.clone()), (0..SHARDS).map(ShardId::new).collect::<Vec<_>>());
    let mut owned_by_timer = Vec::new();
    for (claim, &shard) in timer.claim(&shards, "timer", Duration::ZERO).await.into_iter().zip(&shards) {
        let Ok(Claimed::Mine { epoch, .. }) = claim else { panic!("a timer wins: {claim:?}") };
        owned_by_timer.push((shard, Some(epoch)));
    }
    let count = put(&deployment, (0..40).map(|n| 20 * n)).await;
    let mut arrived = Arrived::default();
    // Long enough that the worker would have claimed again, if it did.
    let until = Instant::now() + Duration::from_secs(7);
    while Instant::now() < until {
        for report in timer.pump(&owned_by_timer, 100, None).await {
            assert!(!matches!(report.unwrap().word, PumpWord::Fenced(_)), "the worker only watches");
        }
        while let Ok(Some(delivery)) = tokio::time::timeout(Duration::from_millis(20), consumer.next()).await
        {
            arrived.take(&deployment, delivery).await;
        }
    }
    assert!(arrived.is_complete(count));
    let began = Instant::now();
    assert!(timer.free(&shards, "timer").await.into_iter().all(|freed| freed.unwrap()));
    owned(&deployment).await;
    assert!(began.elapsed() < Duration::from_secs(3), "it was told");
    put(&deployment, [10].into_iter()).await;
    let delivery = within("a message pumped by the worker", LONG, consumer.next()).await.unwrap();
    delivery.ack().await.unwrap();
    consumer.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_worker_that_pumps_makes_a_call_every_two_seconds() {
    const SECONDS: u64 = 16;
    let deployment = alone(1).await;
    let consumer = pumping(&deployment.client);
    owned(&deployment).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = deployment.server.scripts_run().await;
    tokio::time::sleep(Duration::from_secs(SECONDS)).await;
    let made = deployment.server.scripts_run().await - before;
    consumer.stop().await;
    assert!((2..=SECONDS / 2).contains(&made), "{made} calls in {SECONDS} s");
}
