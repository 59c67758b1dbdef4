//! A process that dies at any await of an operation, and another that continues.

use super::super::estimate::estimate;
use super::super::store::SLOTS;
use super::{Running, SILENCE, Seen};
use crate::metrics::GatewayMetrics;
use crate::operations::{Begun, Deed, Operation, Order};
use delayq::{Message, Topic};
use delayq_service::{Metrics, Shutdown};
use delayq_tests::deployment::Deployment;
use serde_json::json;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;
use tokio::time::Instant;

const HOUR: Duration = Duration::from_secs(3600);
const MESSAGES: usize = 12;
const MAX_POLLS: usize = 400;

fn running(scene: &Deployment) -> Running {
    Running::new(scene.admin.clone(), GatewayMetrics::register(&Metrics::default()))
}

async fn put(scene: &Deployment, topic: &Topic) {
    let message = |n: usize| Message::new(topic.clone(), "x").id(format!("{n}")).unwrap().after(HOUR);
    scene.put((0..MESSAGES).map(message)).await;
}

fn order(topic: &Topic, action: Deed) -> Order {
    Order {
        action,
        topics: vec![topic.clone()],
        group: None,
        state: "pending".to_owned(),
        from_ms: None,
        to_ms: None,
        headers: BTreeMap::new(),
        dead_reason: None,
        reason: "test".to_owned(),
        tenant: None,
    }
}

async fn begin(running: &Running, order: Order) -> Operation {
    let estimate = estimate(&running.admin, &order, 100).await.unwrap();
    let operation = Operation::new(format!("{:016x}", fastrand::u64(..)), order, None, &estimate);
    assert!(matches!(running.begin(&operation).await.unwrap(), Begun::InSlot));
    operation
}

/// Takes the operation of the first slot as if its holder had been silent, and advances it to its end.
async fn advance(running: &Running) {
    let version = running.store.in_slot(SLOTS[0]).await.unwrap().map_or(0, |(version, _)| version);
    let mut seen = Some(Seen { version, since: Instant::now().checked_sub(SILENCE).unwrap() });
    if let Some(held) = running.take(SLOTS[0], &mut seen).await.unwrap() {
        held.advance(&Shutdown::new()).await;
    }
}

/// True if the future had completed by then.
async fn dropped_after(polls: usize, future: impl Future) -> bool {
    let (mut future, mut left) = (Box::pin(future), polls);
    poll_fn(|cx| {
        if left == 0 {
            return Poll::Ready(false);
        }
        left -= 1;
        match future.as_mut().poll(cx) {
            Poll::Ready(_) => Poll::Ready(true),
            Poll::Pending if left == 0 => Poll::Ready(false),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Begins the operation, drops its holder at each await, and has another continue: every time with the same outcomes.
async fn at_each_await(action: Deed, outcomes: &[(&str, u64)]) {
    let scene = Deployment::new(3).await;
    let (first, second) = (running(&scene), running(&scene));
    for polls in 0..MAX_POLLS {
        let topic = Topic::new(format!("t{polls}")).unwrap();
        put(&scene, &topic).await;
        let operation = begin(&first, order(&topic, action)).await;
        let is_through = dropped_after(polls, advance(&first)).await;
        advance(&second).await;
        advance(&second).await;
        let shown = second.store.get(&operation.id).await.unwrap().unwrap().shown();
        let expected: BTreeMap<&str, u64> = outcomes.iter().copied().collect();
        assert_eq!(shown["outcomes"], json!(expected), "dropped after {polls} polls: {shown}");
        assert_eq!((&shown["state"], &shown["total"]), (&json!("done"), &json!(MESSAGES)), "{polls}");
        assert_eq!(
            second.store.in_slot(SLOTS[0]).await.unwrap().map(|(version, _)| version),
            None,
            "{polls}"
        );
        if is_through {
            println!("completed after {polls} polls");
            assert!(polls > 20, "{polls}");
            return;
        }
    }
    panic!("not completed after {MAX_POLLS} polls");
}

#[tokio::test]
async fn a_cancel_whose_gateway_dies_anywhere_counts_each_message_once() {
    at_each_await(Deed::Cancel, &[("cancelled", MESSAGES as u64)]).await;
}

#[tokio::test]
async fn a_shift_whose_gateway_dies_anywhere_moves_each_message_once() {
    at_each_await(Deed::Shift(600_000), &[("delayed", MESSAGES as u64)]).await;
}
