//! Waiting workers: their turns, and the death of a worker.

use delayq::{Consumer, ConsumerOptions, Message, Topic};
use delayq_tests::deadline::{LONG, SHORT, within};
use delayq_tests::deployment::Deployment;
use delayq_tests::process::{Process, Signal};
use delayq_tests::redis_server::{RedisServer, SharedRedis};
use std::process::Command;

fn worker(deployment: &Deployment, topics: &[&str]) -> Consumer {
    let topics: Vec<Topic> = topics.iter().map(|topic| Topic::new(*topic).unwrap()).collect();
    Consumer::start(deployment.client.clone(), ConsumerOptions::new(topics).concurrency(1)).unwrap()
}

async fn put(deployment: &Deployment, topic: &str, count: usize) {
    let topic = Topic::new(topic).unwrap();
    deployment.put((0..count).map(|_| Message::new(topic.clone(), "x"))).await;
}

async fn next_topic(worker: &mut Consumer) -> String {
    let delivery = within("a delivery", LONG, worker.next()).await.unwrap();
    let topic = delivery.topic.to_string();
    delivery.ack().await.unwrap();
    topic
}

#[tokio::test]
async fn in_a_shard_a_later_topic_waits_until_the_earlier_ones_have_nothing() {
    let deployment = Deployment::new(1).await;
    put(&deployment, "low", 3).await;
    put(&deployment, "high", 3).await;
    let mut worker = worker(&deployment, &["high", "low"]);
    for _ in 0..3 {
        assert_eq!(next_topic(&mut worker).await, "high");
    }
    // The next delivery may already be on its way: reserved messages are handed out, whatever arrives meanwhile.
    assert_eq!(next_topic(&mut worker).await, "low");
    let held = within("a delivery", LONG, worker.next()).await.unwrap();
    assert_eq!(held.topic.as_str(), "low");
    put(&deployment, "high", 2).await;
    put(&deployment, "low", 2).await;
    held.ack().await.unwrap();
    let order = [next_topic(&mut worker).await, next_topic(&mut worker).await, next_topic(&mut worker).await];
    assert_eq!(order, ["high", "high", "low"]);
    worker.stop().await;
}

#[tokio::test]
async fn a_waiter_that_died_or_hangs_keeps_no_message_from_the_others() {
    let server = RedisServer::private().await;
    let socket = server.socket();
    let deployment = Deployment::on(SharedRedis::from(server), 1).await;
    let waiter = || {
        let mut command = Command::new("redis-cli");
        command.arg("-s").arg(&socket).args(["SSUBSCRIBE", "{dq:0}:ready"]);
        Process::spawn("redis-cli", command)
    };
    let (mut dead, mut hanging) = (waiter(), waiter());
    dead.wait_for_line("{dq:0}:ready", SHORT).await;
    hanging.wait_for_line("{dq:0}:ready", SHORT).await;
    dead.end_by(Signal::KILL, SHORT).await;
    hanging.signal(Signal::STOP);
    let mut worker = worker(&deployment, &["t"]);
    for n in 0..100 {
        put(&deployment, "t", 1).await;
        assert_eq!(next_topic(&mut worker).await, "t", "{n}");
    }
    hanging.end_by(Signal::KILL, SHORT).await;
    worker.stop().await;
}
