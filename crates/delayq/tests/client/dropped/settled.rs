//! Settlements and stops that are dropped.

use crate::dropped::polled::dropped_after;
use delayq::{Consumer, ConsumerOptions, Delivery, Error, Message, Settled, Topic};
use delayq_tests::deadline::{LONG, wait_until, within};
use delayq_tests::deployment::Deployment;
use std::time::Duration;
use tokio::time::timeout;

/// More polls than a settlement or a stop needs.
const POLLS: usize = 6;

struct Scene {
    deployment: Deployment,
    topic: Topic,
}

impl Scene {
    async fn new() -> Self {
        Self { deployment: Deployment::new(2).await, topic: Topic::new("orders").unwrap() }
    }

    async fn put(&self, count: usize) {
        let message = |n| Message::new(self.topic.clone(), format!("{n}")).max_attempts(1);
        self.deployment.put((0..count).map(message)).await;
    }

    fn consumer(&self, concurrency: usize) -> Consumer {
        let options = ConsumerOptions::new([self.topic.clone()]).concurrency(concurrency);
        Consumer::start(self.deployment.client.clone(), options).unwrap()
    }

    async fn numbers(&self) -> (u64, u64, u64, u64) {
        let numbers = self.deployment.admin.topic(&self.topic).count().await.unwrap();
        assert_eq!(numbers.accepted, numbers.accounted(), "{numbers:?}");
        (numbers.delivered, numbers.dead, numbers.ready, numbers.leased)
    }
}

async fn take(consumer: &mut Consumer, count: usize) -> Vec<Delivery> {
    let mut taken = Vec::new();
    while taken.len() < count {
        taken.push(within("a delivery", LONG, consumer.next()).await.unwrap());
    }
    taken
}

/// Drops settlements after each number of polls; returns the numbers once the consumer has stopped.
async fn settle<F>(how: impl Fn(Delivery) -> F) -> (u64, u64, u64, u64)
where
    F: Future<Output = Result<Settled, Error>>,
{
    let scene = Scene::new().await;
    scene.put(POLLS).await;
    let mut consumer = scene.consumer(POLLS);
    for (polls, delivery) in take(&mut consumer, POLLS).await.into_iter().enumerate() {
        dropped_after(polls, how(delivery)).await;
    }
    within("the consumer's end", LONG, consumer.stop()).await;
    scene.numbers().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settlements_whose_futures_are_dropped_are_carried_out() {
    let all = POLLS as u64;
    assert_eq!(settle(Delivery::ack).await, (all, 0, 0, 0));
    assert_eq!(settle(|delivery| delivery.bury("of no use")).await, (0, all, 0, 0));
    assert_eq!(settle(|delivery| delivery.release(Some(Duration::ZERO), "failed")).await, (0, all, 0, 0));
}

#[tokio::test]
async fn acks_that_time_out_at_once_leave_nothing_leased_and_the_consumer_stops() {
    const COUNT: usize = 400;
    let scene = Scene::new().await;
    scene.put(COUNT).await;
    let mut consumer = scene.consumer(COUNT);
    for delivery in take(&mut consumer, COUNT).await {
        let _ = timeout(Duration::ZERO, delivery.ack()).await;
    }
    within("the consumer's end", LONG, consumer.stop()).await;
    assert_eq!(scene.numbers().await, (COUNT as u64, 0, 0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_that_is_dropped_gives_everything_back_all_the_same() {
    const COUNT: usize = 20;
    for polls in 0..POLLS {
        let scene = Scene::new().await;
        scene.put(COUNT).await;
        let mut consumer = scene.consumer(COUNT);
        drop(take(&mut consumer, 1).await.remove(0).ack().await.unwrap());
        dropped_after(polls, consumer.stop()).await;
        gone(&scene, COUNT - 1).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_next_that_is_dropped_loses_no_message() {
    let scene = Scene::new().await;
    let mut consumer = scene.consumer(4);
    for polls in 0..3 {
        dropped_after(polls.min(1), consumer.next()).await;
        scene.put(1).await;
        take(&mut consumer, 1).await.remove(0).ack().await.unwrap();
    }
    within("the consumer's end", LONG, consumer.stop()).await;
    assert_eq!(scene.numbers().await, (3, 0, 0, 0));
}

/// Waits for the end of a dropped consumer: unstarted messages are ready again, and no message has lost an attempt.
async fn gone(scene: &Scene, unstarted: usize) {
    let ready = unstarted as u64;
    let is_back = async || matches!(scene.numbers().await, (_, 0, found, 0) if found == ready);
    wait_until("what was reserved", LONG, is_back).await;
    for delivery in take(&mut scene.consumer(unstarted), unstarted).await {
        assert_eq!(delivery.attempt(), 1, "{delivery:?}");
        delivery.ack().await.unwrap();
    }
}

async fn drop_a_consumer() {
    const COUNT: usize = 64;
    let scene = Scene::new().await;
    scene.put(COUNT).await;
    let mut consumer = scene.consumer(COUNT);
    take(&mut consumer, 1).await.remove(0).ack().await.unwrap();
    let is_reserved = async || scene.numbers().await == (1, 0, 0, COUNT as u64 - 1);
    wait_until("the reserve", LONG, is_reserved).await;
    drop(consumer);
    gone(&scene, COUNT - 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_consumer_spends_no_attempt_of_what_it_never_handed_out() {
    drop_a_consumer().await;
}

#[tokio::test]
async fn a_dropped_consumer_spends_no_attempt_of_what_it_never_handed_out_on_a_runtime_of_one_thread() {
    drop_a_consumer().await;
}
