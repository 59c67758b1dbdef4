//! Puts that their callers give up, and the next calls of the same callers.

use crate::dropped::polled::dropped_after;
use delayq::{CancelOutcome, Group, Message, MessageId, Target, Topic};
use delayq_tests::deadline::{LONG, within};
use delayq_tests::deployment::Deployment;
use delayq_tests::redis_server::{RedisServer, SharedRedis};
use std::borrow::Borrow;
use std::time::Duration;
use tokio::time::timeout;

/// More polls than a put needs.
const POLLS: usize = 8;

fn topic() -> Topic {
    Topic::new("orders").unwrap()
}

fn order(id: &str) -> Message {
    Message::new(topic(), "x").after(Duration::from_secs(3600)).id(id).unwrap()
}

fn target(id: &str) -> Target {
    MessageId::own(id).unwrap().into()
}

/// Number of delayed messages once every earlier put is sent: `last` goes behind them.
async fn delayed<S: Borrow<SharedRedis>>(deployment: &Deployment<S>, last: &str) -> u64 {
    deployment.producer.put(order(last)).await.unwrap();
    deployment.admin.topic(&topic()).count().await.unwrap().delayed - 1
}

// On one thread, nothing is sent before the next await.
#[tokio::test]
async fn a_put_that_is_given_up_before_it_is_sent_is_not_sent() {
    let deployment = Deployment::new(1).await;
    assert!(!dropped_after(1, deployment.producer.put(order("a"))).await);
    assert_eq!(delayed(&deployment, "last").await, 0);
}

#[tokio::test]
async fn wherever_a_put_is_given_up_a_cancel_that_follows_stays_true() {
    let deployment = Deployment::new(4).await;
    for polls in 0..POLLS {
        let id = format!("order-{polls}");
        dropped_after(polls, deployment.producer.put(order(&id))).await;
        let answer = deployment.producer.cancel(&topic(), &target(&id)).await.unwrap();
        assert!(matches!(answer, CancelOutcome::Cancelled | CancelOutcome::Unknown), "{answer:?}");
        assert_eq!(delayed(&deployment, &format!("last-{polls}")).await, polls as u64, "after {polls} polls");
    }
}

/// A put in flight to a frozen Redis that lacks the script, so that the producer sends the put again. Redis
/// has the scripts of the later calls.
async fn in_flight(put: Message) -> Deployment<RedisServer> {
    let deployment = Deployment::on(RedisServer::private().await, 1).await;
    let () = deployment.server.command(&["SCRIPT", "FLUSH", "SYNC"]).await;
    let nobody = Group::new("nobody").unwrap();
    assert_eq!(deployment.producer.cancel(&topic(), &target("none")).await.unwrap(), CancelOutcome::Unknown);
    assert_eq!(deployment.producer.cancel_group(&nobody).await.unwrap().changed, 0);
    deployment.server.freeze();
    let given_up = timeout(Duration::from_millis(100), deployment.producer.put(put)).await;
    assert!(given_up.is_err(), "{given_up:?}");
    deployment
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_is_ordered_behind_the_put_of_its_id_that_was_given_up_in_flight() {
    let deployment = in_flight(order("a")).await;
    let (topic, target) = (topic(), target("a"));
    let cancel = deployment.producer.cancel(&topic, &target);
    let thaw = async { deployment.server.thaw() };
    let (cancelled, ()) = within("the cancel", LONG, async { tokio::join!(cancel, thaw) }).await;
    let cancelled = cancelled.unwrap();
    assert_eq!((cancelled, delayed(&deployment, "last").await), (CancelOutcome::Cancelled, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_of_a_group_is_ordered_behind_its_puts_that_were_given_up_in_flight() {
    let group = Group::new("user-5").unwrap();
    let put = Message::new(topic(), "x").after(Duration::from_secs(3600)).with_group(group.clone());
    let deployment = in_flight(put).await;
    let cancel = deployment.producer.cancel_group(&group);
    let thaw = async { deployment.server.thaw() };
    let (cancelled, ()) = within("the cancel", LONG, async { tokio::join!(cancel, thaw) }).await;
    assert_eq!((cancelled.unwrap().changed, delayed(&deployment, "last").await), (1, 0));
}
