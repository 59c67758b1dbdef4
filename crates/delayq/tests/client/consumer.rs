//! The consumer against a real Redis: deliveries, leases kept, leases released.

use delayq::admin::PromoteOptions;
use delayq::protocol::{Owner, ShardId};
use delayq::{
    Client, Consumer, ConsumerOptions, Delivery, Error, Message, MessageError, Settings, Settled, Topic,
};
use delayq_tests::deadline::wait_until;
use delayq_tests::deployment::{Deployment, settings};
use std::collections::HashSet;
use std::ops::Deref;
use std::time::Duration;
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(90);
/// A test that pumps repeatedly leaves other tests a share of the machine.
const BETWEEN_PUMPS: Duration = Duration::from_millis(5);

struct Scene {
    deployment: Deployment,
    topic: Topic,
}

// === impl Scene ===

impl Deref for Scene {
    type Target = Deployment;

    fn deref(&self) -> &Deployment {
        &self.deployment
    }
}

async fn deployment(shards: u16) -> Scene {
    Scene { deployment: Deployment::new(shards).await, topic: Topic::new("orders").unwrap() }
}

impl Scene {
    async fn put(&self, count: usize) {
        self.deployment.put((0..count).map(|n| Message::new(self.topic.clone(), format!("{n}")))).await;
    }

    /// Pumps the shard like a timer until `span` after the delivery became ready; no lease may be taken back.
    async fn pump_past(&self, delivery: &Delivery, span: Duration) {
        let (owner, shard) = (Owner::new(self.client.clone()), ShardId::new(0));
        loop {
            let report = owner.pump(&[(shard, Some(1))], 500, None).await.remove(0).unwrap();
            assert_eq!(report.returned, 0);
            if report.now.millis() > delivery.ready.millis() + span {
                return;
            }
            tokio::time::sleep(BETWEEN_PUMPS).await;
        }
    }

    fn consumer(&self, concurrency: usize) -> Consumer {
        let mut options = ConsumerOptions::new([self.topic.clone()]);
        options.concurrency = concurrency;
        Consumer::start(self.client.clone(), options).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_message_is_handed_out_once_and_acked() {
    let deployment = deployment(4).await;
    let mut consumer = deployment.consumer(16);
    deployment.put(2_000).await;
    let mut seen = HashSet::new();
    for _ in 0..2_000 {
        let delivery = timeout(PATIENCE, consumer.next()).await.unwrap().unwrap();
        assert!(seen.insert(delivery.envelope.payload.clone()), "{delivery:?} twice");
        assert_eq!(delivery.ack().await.unwrap(), Settled::Delivered);
    }
    timeout(PATIENCE, consumer.stop()).await.unwrap();
    let numbers = deployment.admin.topic(&deployment.topic).count().await.unwrap();
    assert_eq!((numbers.delivered, numbers.pending()), (2_000, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_acked_later_is_over_when_the_consumer_has_stopped() {
    let deployment = deployment(8).await;
    let mut consumer = deployment.consumer(64);
    deployment.put(2_000).await;
    for _ in 0..2_000 {
        timeout(PATIENCE, consumer.next()).await.unwrap().unwrap().ack_later();
    }
    timeout(PATIENCE, consumer.stop()).await.unwrap();
    let numbers = deployment.admin.topic(&deployment.topic).count().await.unwrap();
    assert_eq!((numbers.delivered, numbers.pending()), (2_000, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_acked_later_is_over_soon_without_a_stop() {
    let deployment = deployment(2).await;
    let mut consumer = deployment.consumer(4);
    deployment.put(1).await;
    timeout(PATIENCE, consumer.next()).await.unwrap().unwrap().ack_later();
    wait_until("the ack", PATIENCE, || async {
        deployment.admin.topic(&deployment.topic).count().await.unwrap().delivered == 1
    })
    .await;
}

async fn ack_later_and_drop() {
    let deployment = deployment(2).await;
    let mut consumer = deployment.consumer(4);
    deployment.put(1).await;
    timeout(PATIENCE, consumer.next()).await.unwrap().unwrap().ack_later();
    drop(consumer);
    wait_until("the ack", PATIENCE, || async {
        deployment.admin.topic(&deployment.topic).count().await.unwrap().delivered == 1
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_acked_later_is_over_though_its_consumer_was_dropped() {
    ack_later_and_drop().await;
}

#[tokio::test]
async fn what_is_acked_later_is_over_though_its_consumer_was_dropped_on_a_runtime_of_one_thread() {
    ack_later_and_drop().await;
}

/// Reserves `count` messages with leases of a second, acks them later, and dies before the acks are sent.
fn die_after_acking_later(settings: Settings, topic: Topic, count: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut options = ConsumerOptions::new([topic]);
        (options.concurrency, options.lease) = (count, Some(Duration::from_secs(1)));
        let mut consumer = Consumer::start(Client::new(settings), options).unwrap();
        let mut taken = Vec::new();
        while taken.len() < count {
            taken.push(timeout(PATIENCE, consumer.next()).await.unwrap().unwrap());
        }
        // Nothing is awaited after this: no task of the runtime runs any more.
        taken.into_iter().for_each(delayq::Delivery::ack_later);
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_dying_worker_acked_later_comes_again_when_its_lease_ends_and_nothing_is_lost() {
    const COUNT: usize = 20;
    let deployment = deployment(2).await;
    deployment.put(COUNT).await;
    let (worker, topic) = (settings(deployment.server.url(), 2), deployment.topic.clone());
    tokio::task::spawn_blocking(|| die_after_acking_later(worker, topic, COUNT)).await.unwrap();
    let numbers = deployment.admin.topic(&deployment.topic).count().await.unwrap();
    assert_eq!((numbers.delivered, numbers.pending()), (0, COUNT as u64), "{numbers:?}");

    let pump = async {
        loop {
            for shard in deployment.client.shards().shards() {
                Owner::new(deployment.client.clone())
                    .pump(&[(shard, Some(1))], 500, None)
                    .await
                    .remove(0)
                    .unwrap();
            }
            tokio::time::sleep(BETWEEN_PUMPS).await;
        }
    };
    let mut consumer = deployment.consumer(COUNT);
    let take_again = async {
        let mut seen = HashSet::new();
        while seen.len() < COUNT {
            let delivery = consumer.next().await.unwrap();
            assert!(delivery.envelope.delivery > 1, "{delivery:?}");
            assert!(seen.insert(delivery.id.clone()), "{delivery:?} twice");
            assert_eq!(delivery.ack().await.unwrap(), Settled::Delivered);
        }
    };
    tokio::select! {
        () = pump => {}
        again = timeout(PATIENCE, take_again) => again.unwrap(),
    }
    let numbers = deployment.admin.topic(&deployment.topic).count().await.unwrap();
    assert_eq!((numbers.delivered, numbers.pending()), (COUNT as u64, 0), "{numbers:?}");
}

#[tokio::test]
async fn on_a_runtime_of_one_thread_messages_are_handed_out_once_acked_and_given_back() {
    let deployment = deployment(4).await;
    let mut consumer = deployment.consumer(16);
    deployment.put(500).await;
    let mut seen = HashSet::new();
    for n in 0..400 {
        let delivery = timeout(PATIENCE, consumer.next()).await.unwrap().unwrap();
        assert!(seen.insert(delivery.envelope.payload.clone()), "{delivery:?} twice");
        if n % 2 == 0 {
            assert_eq!(delivery.ack().await.unwrap(), Settled::Delivered);
        } else {
            delivery.ack_later();
        }
    }
    timeout(PATIENCE, consumer.stop()).await.unwrap();
    let numbers = deployment.admin.topic(&deployment.topic).count().await.unwrap();
    assert_eq!((numbers.delivered, numbers.ready, numbers.leased), (400, 100, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_consumer_is_woken_by_a_put() {
    let deployment = deployment(2).await;
    let mut consumer = deployment.consumer(1);
    for _ in 0..3 {
        deployment.put(1).await;
        timeout(PATIENCE, consumer.next()).await.unwrap().unwrap().ack().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_is_reserved_than_may_be_handed_out() {
    let deployment = deployment(3).await;
    deployment.put(50).await;
    let mut consumer = deployment.consumer(7);
    let held: Vec<_> = [consumer.next().await.unwrap(), consumer.next().await.unwrap()].into();
    let numbers = deployment.admin.topic(&deployment.topic).count().await.unwrap();
    assert!(numbers.leased <= 7, "{numbers:?}");
    drop(held);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn however_places_become_free_no_more_is_held_than_the_concurrency_allows() {
    const CONCURRENCY: usize = 20;
    let deployment = deployment(8).await;
    deployment.put(400).await;
    let mut consumer = deployment.consumer(CONCURRENCY);
    let mut held = Vec::new();
    for n in 0..400 {
        held.push(timeout(PATIENCE, consumer.next()).await.unwrap().unwrap());
        if held.len() >= [1, 7, CONCURRENCY][n % 3] {
            for delivery in held.drain(..) {
                delivery.ack().await.unwrap();
            }
            let numbers = deployment.admin.topic(&deployment.topic).count().await.unwrap();
            assert!(numbers.leased <= CONCURRENCY as u64, "{numbers:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_waits_to_be_handed_out_keeps_its_lease() {
    const LEASE: Duration = Duration::from_secs(3);
    let deployment = deployment(1).await;
    deployment.put(4).await;
    let mut options = ConsumerOptions::new([deployment.topic.clone()]);
    (options.concurrency, options.lease) = (4, Some(LEASE));
    let mut consumer = Consumer::start(deployment.client.clone(), options).unwrap();
    let first = timeout(PATIENCE, consumer.next()).await.unwrap().unwrap();
    deployment.pump_past(&first, 2 * LEASE).await;
    for _ in 1..4 {
        let delivery = timeout(PATIENCE, consumer.next()).await.unwrap().unwrap();
        assert_eq!((delivery.envelope.delivery, delivery.ack().await.unwrap()), (1, Settled::Delivered));
    }
    assert_eq!(first.ack().await.unwrap(), Settled::Delivered);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_consumer_gives_back_what_nobody_started() {
    let deployment = deployment(1).await;
    deployment.put(10).await;
    let mut consumer = deployment.consumer(10);
    let first = timeout(PATIENCE, consumer.next()).await.unwrap().unwrap();
    first.ack().await.unwrap();
    timeout(PATIENCE, consumer.stop()).await.unwrap();
    let numbers = deployment.admin.topic(&deployment.topic).count().await.unwrap();
    assert_eq!((numbers.delivered, numbers.ready, numbers.leased), (1, 9, 0));
    let mut again = deployment.consumer(9);
    let mut given_back = 0;
    for _ in 0..9 {
        let delivery = timeout(PATIENCE, again.next()).await.unwrap().unwrap();
        assert_eq!(delivery.envelope.attempt, 1, "what nobody started was no attempt: {delivery:?}");
        given_back += usize::from(delivery.envelope.delivery == 2);
        delivery.ack().await.unwrap();
    }
    assert!(given_back > 0, "one reserve brings more than the one that was handed out");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_delivery_comes_again_by_its_back_off() {
    let deployment = deployment(1).await;
    deployment.put(1).await;
    let mut consumer = deployment.consumer(1);
    drop(timeout(PATIENCE, consumer.next()).await.unwrap().unwrap());
    timeout(PATIENCE, consumer.stop()).await.unwrap();
    let numbers = deployment.admin.topic(&deployment.topic).count().await.unwrap();
    assert_eq!((numbers.delayed, numbers.leased), (1, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_is_kept_alive_while_the_work_lasts() {
    const LEASE: Duration = Duration::from_secs(3);
    let deployment = deployment(1).await;
    deployment.put(1).await;
    let mut options = ConsumerOptions::new([deployment.topic.clone()]);
    options.lease = Some(LEASE);
    let mut consumer = Consumer::start(deployment.client.clone(), options).unwrap();
    let delivery = timeout(PATIENCE, consumer.next()).await.unwrap().unwrap();
    deployment.pump_past(&delivery, 2 * LEASE).await;
    assert_eq!(delivery.ack().await.unwrap(), Settled::Delivered);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn payloads_are_compressed_with_a_trained_dictionary_and_restored() {
    let deployment = deployment(2).await;
    let order = |n: usize| {
        format!(
            "{{\"order\":{n},\"customer\":\"c-{}\",\"event\":\"payment-timeout\",\"currency\":\"EUR\"}}",
            n * 7
        )
    };
    let later = Duration::from_secs(3600);
    let put = |n: usize| Message::new(deployment.topic.clone(), order(n)).after(later);
    assert!(deployment.producer.put_many((0..1_000).map(put).collect()).await.iter().all(Result::is_ok));
    let trained = deployment.admin.dictionaries().train(&deployment.topic, 1_000).await.unwrap();
    assert_eq!(trained.samples, 1_000);
    assert!(trained.compressed_bytes * 2 < trained.plain_bytes, "{trained:?}");

    let put = deployment.producer.put(Message::new(deployment.topic.clone(), order(5_000))).await.unwrap();
    let key = format!("{{dq:{}}}:m:1:", put.reference.shard);
    let mut stored = deployment.server.connect_to(&key).await;
    let mut name = key.into_bytes();
    name.extend(put.reference.id.as_bytes());
    let bytes: Vec<u8> = redis::cmd("GET").arg(name).query_async(&mut stored).await.unwrap();
    assert!(bytes.len() < delayq::protocol::HEAD_BYTES + order(5_000).len() / 2, "{} bytes", bytes.len());

    // Another process does not know the dictionary yet.
    let stranger = Client::new(settings(deployment.server.url(), 2));
    let mut consumer = Consumer::start(stranger, ConsumerOptions::new([deployment.topic.clone()])).unwrap();
    let delivery = timeout(PATIENCE, consumer.next()).await.unwrap().unwrap();
    assert_eq!(delivery.envelope.payload, order(5_000).into_bytes());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full_batches_reach_every_shard() {
    let deployment = deployment(4).await;
    for _ in 0..8 {
        deployment.put(500).await;
    }
    let mut accepted = Vec::new();
    for shard in deployment.client.shards().shards() {
        let stats = format!("{{dq:{shard}}}:stats");
        accepted.push(deployment.server.command::<Option<u64>>(&["HGET", &stats, "accepted:1"]).await);
    }
    // Each page goes to the next shard as a whole.
    let full = |batches: &Option<u64>| batches.is_some_and(|messages| messages >= 500 && messages % 500 == 0);
    assert!(accepted.iter().all(full), "{accepted:?}");
    assert_eq!(accepted.into_iter().flatten().sum::<u64>(), 4_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_generated_id_of_another_shard_than_its_group_is_refused() {
    let deployment = deployment(4).await;
    let group = delayq::Group::new("user-5").unwrap();
    let there = deployment.client.shards().shard_of_name(group.as_str());
    for shard in deployment.client.shards().shards() {
        let id = delayq::MessageId::generate(shard, 1);
        let message = Message::new(deployment.topic.clone(), "").with_id(id).with_group(group.clone());
        assert_eq!(deployment.producer.put(message).await.is_ok(), shard == there, "shard {shard}");
    }
    assert_eq!(deployment.admin.topic(&deployment.topic).count().await.unwrap().accepted, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delivery_is_acked_by_the_put_of_its_next_message_and_released_if_that_breaks_a_rule() {
    let scene = deployment(3).await;
    scene.put(1).await;
    let mut consumer = scene.consumer(1);
    let first = timeout(PATIENCE, consumer.next()).await.unwrap().unwrap();
    let other = Message::new(scene.topic.clone(), "x").id("another").unwrap();
    assert!(matches!(first.ack_and_put(other).await, Err(Error::Message(MessageError::Next(_)))));
    let topic = scene.admin.topic(&scene.topic);
    assert_eq!(topic.count().await.unwrap().delayed, 1, "it was released");
    scene.admin.promote(&scene.topic, &PromoteOptions::default(), |_| {}).await.unwrap();
    let again = timeout(PATIENCE, consumer.next()).await.unwrap().unwrap();
    let next = Message::new(scene.topic.clone(), "next").with_id(again.id.clone()).after(PATIENCE * 100);
    assert_eq!(again.ack_and_put(next).await.unwrap(), Settled::Delivered);
    let numbers = topic.count().await.unwrap();
    assert_eq!((numbers.accepted, numbers.delivered, numbers.delayed, numbers.leased), (2, 1, 1, 0));
    consumer.stop().await;
}
