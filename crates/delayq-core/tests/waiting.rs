//! Workers that wait: whose turn it is, and one that died.

#![allow(clippy::unwrap_used, reason = "all of it is tests, the functions that they share included")]

use delayq_core::{
    Client, Consumer, ConsumerOptions, Message, Producer, ProducerOptions, Settings, ShardCount, Topic,
};
use delayq_tests::deadline::{LONG, SHORT, within};
use delayq_tests::process::{Process, Signal};
use delayq_tests::redis_server::RedisServer;
use std::process::Command;

struct Shop {
    server: RedisServer,
    client: Client,
    producer: Producer,
}

impl Shop {
    async fn open() -> Self {
        let server = RedisServer::start().await;
        let settings = Settings { shards: ShardCount::new(1).unwrap(), ..Settings::new(server.url()) };
        let client = Client::new(settings);
        client.init().await.unwrap();
        let producer = Producer::start(client.clone(), ProducerOptions::default());
        Self { server, client, producer }
    }

    fn worker(&self, topics: &[&str]) -> Consumer {
        let topics: Vec<Topic> = topics.iter().map(|topic| Topic::new(*topic).unwrap()).collect();
        let options = ConsumerOptions { concurrency: 1, ..ConsumerOptions::new(topics) };
        Consumer::start(self.client.clone(), options)
    }

    async fn put(&self, topic: &str, count: usize) {
        let messages = (0..count).map(|_| Message::new(Topic::new(topic).unwrap(), "x")).collect();
        for put in self.producer.put_many(messages).await {
            assert!(put.unwrap().outcome.is_accepted());
        }
    }
}

async fn next_topic(worker: &mut Consumer) -> String {
    let delivery = within("a delivery", LONG, worker.next()).await.unwrap();
    let topic = delivery.topic.to_string();
    delivery.ack().await.unwrap();
    topic
}

#[tokio::test]
async fn in_a_shard_a_later_topic_waits_until_the_earlier_ones_have_nothing() {
    let shop = Shop::open().await;
    shop.put("low", 3).await;
    shop.put("high", 3).await;
    let mut worker = shop.worker(&["high", "low"]);
    for _ in 0..3 {
        assert_eq!(next_topic(&mut worker).await, "high");
    }
    // The next one may be on its way already: what is reserved is handed out, whatever comes meanwhile.
    assert_eq!(next_topic(&mut worker).await, "low");
    let held = within("a delivery", LONG, worker.next()).await.unwrap();
    assert_eq!(held.topic.as_str(), "low");
    shop.put("high", 2).await;
    shop.put("low", 2).await;
    held.ack().await.unwrap();
    let order = [next_topic(&mut worker).await, next_topic(&mut worker).await, next_topic(&mut worker).await];
    assert_eq!(order, ["high", "high", "low"]);
    worker.stop().await;
}

#[tokio::test]
async fn a_waiter_that_died_or_hangs_keeps_no_message_from_the_others() {
    let shop = Shop::open().await;
    let waiter = || {
        let mut command = Command::new("redis-cli");
        command.args(["-u", &shop.server.url(), "SSUBSCRIBE", "{dq:0}:ready"]);
        Process::spawn("redis-cli", command)
    };
    let (mut dead, mut hanging) = (waiter(), waiter());
    dead.wait_for_line("{dq:0}:ready", SHORT).await;
    hanging.wait_for_line("{dq:0}:ready", SHORT).await;
    dead.end_by(Signal::KILL, SHORT).await;
    hanging.signal(Signal::STOP);
    let mut worker = shop.worker(&["t"]);
    for n in 0..100 {
        shop.put("t", 1).await;
        assert_eq!(next_topic(&mut worker).await, "t", "{n}");
    }
    hanging.end_by(Signal::KILL, SHORT).await;
    worker.stop().await;
}
