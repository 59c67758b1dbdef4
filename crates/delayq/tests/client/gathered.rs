//! Concurrent puts of a producer's callers share a call, and so do a consumer's acks; against a real Redis.

use delayq::admin::{ListState, TimeRange};
use delayq::protocol::{Scripts, Verb};
use delayq::{Consumer, ConsumerOptions, Delivery, Message, MessageId, PutOutcome, Topic, UnixMillis};
use delayq_tests::deadline::{LONG, within};
use delayq_tests::deployment::Deployment;
use delayq_tests::redis_server::RedisServer;
use futures_util::future::join_all;
use std::time::Duration;
use tokio::task::JoinSet;

const SHARDS: u16 = 8;

/// An entry of SLOWLOG: number, time, µs, command, the client's address and name.
type Logged = (u64, u64, u64, Vec<Vec<u8>>, String, String);

struct Scene {
    deployment: Deployment<RedisServer>,
    topic: Topic,
}

// === impl Scene ===

impl Scene {
    async fn new() -> Self {
        let deployment = Deployment::on(RedisServer::private().await, SHARDS).await;
        let scene = Self { deployment, topic: Topic::new("orders").unwrap() };
        scene.deployment.producer.warm(&scene.topic).await.unwrap();
        scene.deployment.put([scene.order("warm", "")]).await;
        scene
    }

    fn order(&self, id: &str, payload: &str) -> Message {
        Message::new(self.topic.clone(), payload).at(UnixMillis::new(u64::MAX >> 20)).id(id).unwrap()
    }

    fn orders(&self, numbers: std::ops::Range<usize>) -> Vec<Message> {
        numbers.map(|n| self.order(&format!("order-{n}"), "{}")).collect()
    }

    async fn record(&self) {
        self.deployment.server.command::<()>(&["CONFIG", "SET", "slowlog-max-len", "10000"]).await;
        self.deployment.server.command::<()>(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]).await;
    }

    async fn calls(&self, verb: Verb) -> usize {
        let log: Vec<Logged> = self.deployment.server.command(&["SLOWLOG", "GET", "10000"]).await;
        let script = Scripts::published().get(verb).sha.clone().into_bytes();
        log.iter().filter(|(_, _, _, words, ..)| words.get(1) == Some(&script)).count()
    }
}

// On one thread, all callers put before the first pipeline is made.
#[tokio::test]
async fn puts_of_many_callers_share_one_call_a_shard() {
    let scene = Scene::new().await;
    scene.record().await;
    let mut callers = JoinSet::new();
    for order in scene.orders(0..200) {
        let producer = scene.deployment.producer.clone();
        callers.spawn(async move { producer.put(order).await });
    }
    for put in callers.join_all().await {
        assert!(matches!(put.unwrap().outcome, PutOutcome::Stored(_)));
    }
    assert_eq!(scene.calls(Verb::Put).await, usize::from(SHARDS));
}

#[tokio::test]
async fn batches_of_several_callers_share_one_call_a_shard() {
    let scene = Scene::new().await;
    scene.record().await;
    let batches = (0..4).map(|n| scene.orders(100 * n..100 * n + 100));
    for puts in join_all(batches.map(|batch| scene.deployment.producer.put_many(batch))).await {
        assert_eq!(puts.iter().filter(|put| put.is_ok()).count(), 100);
    }
    assert_eq!(scene.calls(Verb::Put).await, usize::from(SHARDS));
}

#[tokio::test]
async fn a_refused_message_leaves_the_others_of_its_batch_answered_in_order() {
    let scene = Scene::new().await;
    scene.deployment.producer.put(scene.order("order-1", "first")).await.unwrap();
    let too_large = "x".repeat((1 << 20) + 1);
    let mut batch = scene.orders(0..100);
    batch[50] = scene.order("too-large", &too_large);
    let answers = scene.deployment.producer.put_many(batch).await;
    for (n, answer) in answers.into_iter().enumerate() {
        match n {
            1 => assert!(matches!(answer.unwrap().outcome, PutOutcome::Conflict(..))),
            50 => assert!(answer.is_err()),
            n => {
                let put = answer.unwrap();
                assert!(matches!(put.outcome, PutOutcome::Stored(_)), "{put:?}");
                assert_eq!(put.reference.id.as_bytes(), format!("order-{n}").as_bytes());
            }
        }
    }
}

// On one thread, nothing is sent while work keeps the thread busy: afterwards all acks have waited long enough.
#[tokio::test]
async fn acks_that_waited_while_their_thread_was_busy_share_calls() {
    const COUNT: usize = 200;
    let scene = Scene::new().await;
    scene.deployment.put((0..COUNT).map(|n| Message::new(scene.topic.clone(), format!("{n}")))).await;
    let options = ConsumerOptions::new([scene.topic.clone()]).concurrency(COUNT);
    let mut consumer = Consumer::start(scene.deployment.client.clone(), options).unwrap();
    let mut taken = Vec::new();
    while taken.len() < COUNT {
        taken.push(within("a delivery", LONG, consumer.next()).await.unwrap());
    }
    scene.record().await;
    taken.into_iter().for_each(Delivery::ack_later);
    std::thread::sleep(Duration::from_millis(100));
    within("the consumer's end", LONG, consumer.stop()).await;
    let acks = scene.calls(Verb::Ack).await;
    assert!((1..=usize::from(SHARDS)).contains(&acks), "{acks} calls");
    assert_eq!(scene.deployment.admin.topic(&scene.topic).count().await.unwrap().delivered, COUNT as u64);
}

#[tokio::test]
async fn generated_ids_due_at_one_instant_stand_in_the_order_of_their_puts() {
    const COUNT: usize = 400;
    let deployment = Deployment::on(RedisServer::start().await, 1).await;
    let topic = Topic::new("orders").unwrap();
    let due = UnixMillis::new(u64::MAX >> 20);
    let message = |n: usize| Message::new(topic.clone(), n.to_string()).at(due);
    let put = deployment.producer.put_many((0..COUNT).map(message).collect()).await;
    let put: Vec<MessageId> = put.into_iter().map(|put| put.unwrap().reference.id).collect();
    let listed =
        deployment.admin.topic(&topic).list(ListState::Delayed, TimeRange::ALL, 2 * COUNT).await.unwrap();
    let listed: Vec<MessageId> = listed.into_iter().map(|listed| listed.id).collect();
    assert_eq!(listed, put);
}

// On one thread, background questions are sent before later calls.
#[tokio::test]
async fn the_codecs_of_many_topics_are_asked_about_by_the_page() {
    const TOPICS: u64 = 1_000;
    let scene = Scene::new().await;
    let server = &scene.deployment.server;
    server.command::<()>(&["CONFIG", "RESETSTAT"]).await;
    let to = |n: u64| {
        Message::new(Topic::new(format!("tenant-{n}")).unwrap(), "{}").after(Duration::from_secs(60))
    };
    for put in scene.deployment.producer.put_many((0..TOPICS).map(to).collect()).await {
        let put = put.unwrap();
        assert!(matches!(put.outcome, PutOutcome::Stored(_)), "{put:?}");
    }
    scene.deployment.producer.warm(&scene.topic).await.unwrap();
    let info: String = server.command(&["INFO", "commandstats"]).await;
    let (_, calls) = info.split_once("cmdstat_evalsha:calls=").unwrap();
    let calls: u64 = calls.split(',').next().unwrap().parse().unwrap();
    let asked = calls - TOPICS;
    assert!((2..=TOPICS / 10).contains(&asked), "{asked} calls besides one put for each of {TOPICS} topics");
}
