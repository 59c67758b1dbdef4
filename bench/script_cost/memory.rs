//! The memory of a shard whose pending orders are compressed with a trained dictionary.

use crate::server::{HOURS, PAYLOAD_BYTES, Server, order};
use delayq::{Admin, Client, Message, Producer, ProducerOptions, Settings, ShardCount, Topic, UnixMillis};

const SAMPLES: usize = 2_000;
const STEP: usize = 10_000;

pub(crate) async fn bytes_with_dictionary(pending: usize) -> f64 {
    assert_eq!(order(pending).len(), PAYLOAD_BYTES, "an order is as long as it is said to be");
    let server = Server::start().await;
    let mut settings = Settings::new(server.url());
    settings.shards = ShardCount::new(1).expect("1 is a count of shards");
    let client = Client::new(settings);
    Admin::new(client.clone()).init().await.expect("a new Redis takes a deployment");
    let topic = Topic::new("orders").expect("a plain name is a topic's");
    let producer = Producer::start(client.clone(), ProducerOptions::default());
    put(&server, &producer, &topic, 0..SAMPLES).await;
    let trained = Admin::new(client).dictionaries().train(&topic, SAMPLES).await;
    trained.expect("orders have much in common");
    let before = server.used_bytes().await;
    for first in (SAMPLES..SAMPLES + pending).step_by(STEP) {
        put(&server, &producer, &topic, first..(first + STEP).min(SAMPLES + pending)).await;
    }
    (server.used_bytes().await - before) / pending as f64
}

async fn put(server: &Server, producer: &Producer, topic: &Topic, range: std::ops::Range<usize>) {
    let due = |n: usize| UnixMillis::new(server.due_ms(n as u64 % HOURS, n));
    let messages = range.map(|n| Message::new(topic.clone(), order(n)).at(due(n))).collect();
    for put in producer.put_many(messages).await {
        assert!(put.expect("Redis answers").outcome.is_accepted(), "a new message is accepted");
    }
}
