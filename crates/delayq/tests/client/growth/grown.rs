//! A deployment on a private Redis, and clients that know more or less of its growths.

use delayq::admin::GrowthReport;
use delayq::protocol::ShardId;
use delayq::{Admin, Client, Message, Producer, ProducerOptions, PutOutcome, ShardCount, Target, Topic};
use delayq_tests::deployment::settings;
use delayq_tests::redis_server::{RedisServer, SharedRedis};
use std::time::Duration;

/// Due long after the test.
pub(crate) const FAR: Duration = Duration::from_secs(100_000);

pub(crate) struct Grown {
    pub(crate) server: SharedRedis,
    pub(crate) client: Client,
    pub(crate) topic: Topic,
}

pub(crate) struct Party {
    pub(crate) client: Client,
    pub(crate) producer: Producer,
}

// === impl Grown ===

impl Grown {
    pub(crate) async fn new() -> Self {
        Self::on(RedisServer::start().await).await
    }

    pub(crate) async fn on(server: SharedRedis) -> Self {
        let client = Client::new(settings(server.url(), 4));
        Admin::new(client.clone()).init().await.unwrap();
        Self { server, client, topic: Topic::new("orders").unwrap() }
    }

    pub(crate) fn party(&self, shards: u16) -> Party {
        Party::new(Client::new(settings(self.server.url(), shards)))
    }

    pub(crate) fn admin(&self) -> Admin {
        Admin::new(self.client.clone())
    }

    pub(crate) async fn grow(&self, to: u16) -> GrowthReport {
        self.admin().shards().grow(count(to), |_| {}).await.unwrap()
    }

    pub(crate) fn message(&self, n: u32) -> Message {
        let message = Message::new(self.topic.clone(), format!("body {n}")).after(FAR);
        let message = message.id(format!("order-{n}")).unwrap();
        if n.is_multiple_of(2) { message } else { message.group(group_of(n)).unwrap() }
    }

    pub(crate) fn target(&self, n: u32) -> Target {
        let id = delayq::MessageId::own(format!("order-{n}")).unwrap();
        if n.is_multiple_of(2) {
            id.into()
        } else {
            Target::in_group(id, delayq::Group::new(group_of(n)).unwrap())
        }
    }

    pub(crate) async fn layouts(&self, shards: u16) -> Vec<String> {
        let shards: Vec<ShardId> = (0..shards).map(ShardId::new).collect();
        let found = Admin::new(self.client.clone()).shards().layouts(&shards).await.into_iter();
        found.map(|layout| layout.unwrap().map_or(String::new(), |found| found.layout.to_string())).collect()
    }

    pub(crate) async fn field(&self, key: &str, field: &str) -> Option<String> {
        self.server.command(&["HGET", key, field]).await
    }
}

// === impl Party ===

impl Party {
    pub(crate) fn new(client: Client) -> Self {
        Self { producer: Producer::start(client.clone(), ProducerOptions::default()), client }
    }

    pub(crate) async fn put(&self, message: Message) -> PutOutcome {
        self.producer.put(message).await.unwrap().outcome
    }

    pub(crate) async fn put_all(&self, messages: impl Iterator<Item = Message>) -> Vec<PutOutcome> {
        let puts = self.producer.put_many(messages.collect()).await;
        puts.into_iter().map(|put| put.unwrap().outcome).collect()
    }
}

pub(crate) fn group_of(n: u32) -> String {
    format!("user-{}", n % 40)
}

pub(crate) fn count(shards: u16) -> ShardCount {
    ShardCount::new(shards).unwrap()
}
