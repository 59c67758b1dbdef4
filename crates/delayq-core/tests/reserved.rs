//! What a consumer does with what it has reserved, against a real Redis: it keeps leases, settles, and gives back what it
//! cannot read.

#![allow(clippy::unwrap_used, reason = "all of it is tests, the functions that they share included")]

use delayq_core::{
    Admin, Client, Consumer, ConsumerOptions, Delivery, Message, Producer, ProducerOptions, Settings,
    ShardCount, ShardId, Topic,
};
use delayq_tests::{
    deadline::{LONG, wait_until, within},
    redis_server::RedisServer,
};
use std::time::Duration;
use tokio_util::task::AbortOnDropHandle;

const SHARD: ShardId = ShardId::new(0);

struct Scene {
    server: RedisServer,
    producer: Producer,
    admin: Admin,
    topic: Topic,
    _pump: AbortOnDropHandle<()>,
}

fn client(url: String) -> Client {
    let mut settings = Settings::new(url);
    settings.shards = ShardCount::new(1).unwrap();
    Client::new(settings)
}

/// Lets go what is due, and takes leases back when they end, as a timer would.
async fn pump(client: Client) {
    loop {
        // Of what a test breaks, the pump has its part.
        let _ = client.pump(SHARD, Some(1), 500).await;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

// === impl Scene ===

impl Scene {
    async fn new() -> Self {
        let server = RedisServer::start().await;
        let client = client(server.url());
        client.init().await.unwrap();
        let producer = Producer::start(client.clone(), ProducerOptions::default());
        let _pump = AbortOnDropHandle::new(tokio::spawn(pump(client.clone())));
        let (admin, topic) = (Admin::new(client.clone()), Topic::new("orders").unwrap());
        Self { server, producer, admin, topic, _pump }
    }

    async fn put(&self, topic: &Topic, payload: &str) {
        let put = self.producer.put(Message::new(topic.clone(), payload)).await.unwrap();
        assert!(put.outcome.is_accepted(), "{put:?}");
    }
}

async fn next(consumer: &mut Consumer) -> Delivery {
    within("a delivery", LONG, consumer.next()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dictionary_that_cannot_be_fetched_for_a_moment_buries_nothing_and_holds_back_no_other_message() {
    let scene = Scene::new().await;
    let plain = Topic::new("plain").unwrap();
    let order = |n: usize| format!("{{\"order\":{n},\"event\":\"payment-timeout\",\"currency\":\"EUR\"}}");
    let pending = (0..200).map(|n| Message::new(scene.topic.clone(), order(n)).after(LONG * 100));
    scene.producer.put_many(pending.collect()).await;
    scene.admin.train_dictionary(&scene.topic, 200).await.unwrap();
    let (kept, aside) = ("{dq:0}:dictionaries", "{dq:0}:aside");
    scene.server.command::<()>(&["RENAME", kept, aside]).await;
    scene.server.command::<()>(&["SET", kept, "no hash"]).await;
    scene.put(&scene.topic, &order(5_000)).await;
    scene.put(&plain, "plain").await;

    // Another process, which knows nothing of the dictionary yet.
    let options = ConsumerOptions::new([scene.topic.clone(), plain.clone()]);
    let mut consumer = Consumer::start(client(scene.server.url()), options);
    let delivery = next(&mut consumer).await;
    assert_eq!(delivery.envelope.payload, b"plain");
    delivery.ack().await.unwrap();
    scene.server.command::<()>(&["RENAME", aside, kept]).await;
    let delivery = next(&mut consumer).await;
    assert_eq!(delivery.envelope.payload, order(5_000).into_bytes());
    assert!(delivery.envelope.delivery > 1 && delivery.envelope.attempt == 1, "{delivery:?}");
    delivery.ack().await.unwrap();
    assert_eq!(scene.admin.count(&scene.topic).await.unwrap().dead, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_whose_dictionary_is_in_no_redis_is_buried_and_others_are_listed() {
    let scene = Scene::new().await;
    let order = |n: usize| format!("{{\"order\":{n},\"event\":\"payment-timeout\",\"currency\":\"EUR\"}}");
    let pending = (0..200).map(|n| Message::new(scene.topic.clone(), order(n)).after(LONG * 100));
    scene.producer.put_many(pending.collect()).await;
    scene.admin.train_dictionary(&scene.topic, 200).await.unwrap();
    scene.put(&scene.topic, &order(5_000)).await;
    scene.server.command::<()>(&["DEL", "{dq:0}:dictionaries"]).await;
    let stranger = client(scene.server.url());
    let admin = Admin::new(stranger.clone());
    let listed = admin.list(&scene.topic, delayq_core::ListState::Delayed, delayq_core::TimeRange::ALL, 500);
    assert_eq!(listed.await.unwrap().len(), 200);
    let _consumer = Consumer::start(stranger, ConsumerOptions::new([scene.topic.clone()]));
    wait_until("it is buried", LONG, async || admin.count(&scene.topic).await.unwrap().dead == 1).await;
}
