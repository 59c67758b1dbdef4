//! A deployment of delayq on a real Redis, with the basics of nearly every test.

use crate::deadline::{LONG, within};
use crate::redis_server::{RedisServer, SharedRedis};
use delayq::{
    Admin, Client, Consumer, ConsumerOptions, LinkSettings, Message, Producer, ProducerOptions, Settings,
    ShardCount, Topic, UnixMillis,
};
use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::time::Duration;

/// A created deployment, with a producer and an admin over one connection.
#[derive(Debug)]
pub struct Deployment<S = SharedRedis> {
    /// The Redis: shared, or a [`RedisServer`] that the test may break.
    pub server: S,
    /// A client of the deployment.
    pub client: Client,
    /// A producer of the client.
    pub producer: Producer,
    /// An admin of the client.
    pub admin: Admin,
}

// === impl Deployment ===

impl Deployment {
    /// Creates a deployment on a Redis that the test cannot break.
    pub async fn new(shards: u16) -> Self {
        Self::on(RedisServer::start().await, shards).await
    }
}

impl<S: Borrow<SharedRedis>> Deployment<S> {
    /// Creates a deployment on this Redis.
    pub async fn on(server: S, shards: u16) -> Self {
        let (client, admin, producer) = created(settings(server.borrow().url(), shards)).await;
        Self { server, client, producer, admin }
    }

    /// The configuration sections for programs of this deployment.
    #[must_use]
    pub fn sections(&self) -> String {
        format!(
            "[deployment]\nnamespace = \"{}\"\nshards = {}\n[redis]\nurl = \"{}\"\n",
            self.client.namespace(),
            self.client.shards().get(),
            self.server.borrow().url()
        )
    }

    /// Redis's clock.
    pub async fn now(&self) -> UnixMillis {
        UnixMillis::new(self.server.borrow().now_ms().await)
    }

    /// Puts messages, and panics unless all are accepted.
    pub async fn put(&self, messages: impl IntoIterator<Item = Message>) {
        for put in self.producer.put_many(messages.into_iter().collect()).await {
            let put = put.expect("it is put");
            assert!(put.outcome.is_accepted(), "{put:?}");
        }
    }
}

/// A deployment with these settings, for a test that shares its Redis with others.
pub async fn created(settings: Settings) -> (Client, Admin, Producer) {
    let client = Client::new(settings);
    let admin = Admin::new(client.clone());
    admin.init().await.expect("the deployment is created");
    let producer = Producer::start(client.clone(), ProducerOptions::default());
    (client, admin, producer)
}

/// Puts two hundred due messages, half of them with own ids, and takes each once; then the books balance and an audit
/// finds nothing.
pub async fn lives(client: &Client, admin: &Admin, producer: &Producer, topic: &Topic) {
    let due = || Message::new(topic.clone(), "x").after(Duration::ZERO);
    let generated = (0..100).map(|_| due());
    let own = (0..100).map(|n| due().id(format!("own-{n}")).expect("an id"));
    for put in producer.put_many(generated.chain(own).collect()).await {
        assert!(put.expect("it is put").outcome.is_accepted());
    }
    assert_eq!(admin.topic(topic).count().await.expect("the books").accepted, 200);
    let mut consumer = Consumer::start(client.clone(), ConsumerOptions::new([topic.clone()]).concurrency(50))
        .expect("the options are in their ranges");
    let mut seen = BTreeSet::new();
    for _ in 0..200 {
        let delivery = within("a delivery", LONG, consumer.next()).await.expect("a delivery");
        assert!(seen.insert(delivery.id.to_string()), "a message came twice");
        delivery.ack().await.expect("it is acked");
    }
    consumer.stop().await;
    let numbers = admin.topic(topic).count().await.expect("the books");
    assert_eq!((numbers.delivered, numbers.leased + numbers.ready + numbers.delayed), (200, 0));
    let audit = admin.audit().run(|_| {}).await.expect("an audit");
    assert!(audit.findings.is_empty() && audit.drifts.is_empty(), "{audit:?}");
}

/// Wait of a [`confirming`] client for a confirmation: longer than a busy machine delays a replica; a test of a frozen
/// replica waits this long each time.
pub const CONFIRM: Duration = Duration::from_secs(3);

/// A link for writes that replicas confirm.
#[must_use]
pub fn confirming(url: &str) -> LinkSettings {
    LinkSettings::new(url).deadline(10 * CONFIRM).confirm_timeout(CONFIRM)
}

/// The settings of a deployment with this many shards.
#[must_use]
pub fn settings(link: impl Into<LinkSettings>, shards: u16) -> Settings {
    Settings::new(link).shards(ShardCount::new(shards).expect("a number of shards"))
}
