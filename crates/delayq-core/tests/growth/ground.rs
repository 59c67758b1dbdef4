//! What the tests stand on: a deployment on a private Redis, and clients of it that know less or more.

use delayq_core::{
    Admin, Client, GrowthReport, Message, Producer, ProducerOptions, PutOutcome, Settings, ShardCount,
    ShardId, Target, Topic,
};
use delayq_tests::redis_server::RedisServer;
use std::time::Duration;

/// Due long after the test.
pub(crate) const FAR: Duration = Duration::from_secs(100_000);

/// A deployment of 4 shards at first, and an operator's client of it.
pub(crate) struct Ground {
    pub(crate) server: RedisServer,
    pub(crate) client: Client,
    pub(crate) topic: Topic,
}

/// A client with its producer.
pub(crate) struct Party {
    pub(crate) client: Client,
    pub(crate) producer: Producer,
}

// === impl Ground ===

impl Ground {
    pub(crate) async fn new() -> Self {
        let server = RedisServer::start().await;
        let client = Client::new(settings(&server.url(), 4));
        client.init().await.unwrap();
        Self { server, client, topic: Topic::new("orders").unwrap() }
    }

    /// Another client, whose configuration says so many shards.
    pub(crate) fn party(&self, shards: u16) -> Party {
        Party::new(Client::new(settings(&self.server.url(), shards)))
    }

    pub(crate) fn admin(&self) -> Admin {
        Admin::new(self.client.clone())
    }

    pub(crate) async fn grow(&self, to: u16) -> GrowthReport {
        self.admin().grow(count(to), |_| {}).await.unwrap()
    }

    /// The n-th message: every other one is in a group.
    pub(crate) fn message(&self, n: u32) -> Message {
        let message = Message::new(self.topic.clone(), format!("body {n}")).after(FAR);
        let message = message.id(format!("order-{n}")).unwrap();
        if n.is_multiple_of(2) { message } else { message.group(group_of(n)).unwrap() }
    }

    /// What finds the n-th message.
    pub(crate) fn target(&self, n: u32) -> Target {
        let id = delayq_core::MessageId::own(format!("order-{n}")).unwrap();
        if n.is_multiple_of(2) {
            id.into()
        } else {
            Target::in_group(id, delayq_core::Group::new(group_of(n)).unwrap())
        }
    }

    /// The layout that each of so many shards has; empty where it is not there.
    pub(crate) async fn layouts(&self, shards: u16) -> Vec<String> {
        let shards: Vec<ShardId> = (0..shards).map(ShardId::new).collect();
        let found = self.client.shard_layouts(&shards).await.into_iter();
        found.map(|layout| layout.unwrap().map_or(String::new(), |found| found.layout.to_string())).collect()
    }

    /// What one field of one key is.
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

pub(crate) fn settings(url: &str, shards: u16) -> Settings {
    let mut settings = Settings::new(url);
    settings.shards = count(shards);
    settings
}
