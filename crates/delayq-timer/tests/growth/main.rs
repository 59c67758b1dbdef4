//! A deployment that gets more shards under load, with real timers: nothing is lost, doubled or early, and hardly late.

#![allow(clippy::unwrap_used, reason = "all of it is tests, the functions that they share included")]

mod load;
mod timers;

use delayq_core::{Admin, Client};
use delayq_tests::deadline::{LONG, SHORT, wait_until, within};
use delayq_tests::etcd_server::EtcdCluster;
use delayq_tests::invariants::{Permit, check};
use delayq_tests::redis_server::RedisServer;
use load::{Load, count, settings};
use std::time::Duration;
use timers::Running;

/// Puts before each growth, and after the last one.
const PUTS: usize = 1_500;

/// Puts, cancels, reschedules and delivers while the deployment grows from 4 shards to 8 and from 8 to 12.
async fn grows_under_load(server: &RedisServer, timers: &[Running], late: Duration) {
    let operator = Client::new(settings(server, 4));
    let load = Load::start(server).await;
    load.reaches(PUTS).await;
    for (shards, puts) in [(8, 2 * PUTS), (12, 3 * PUTS)] {
        let report = Admin::new(operator.clone()).grow(count(shards), |_| {}).await.unwrap();
        assert_eq!(report.layout.shards(), count(shards));
        wait_until("the timers to own the new shards", SHORT, || async {
            timers.iter().map(Running::owns).sum::<u64>() == u64::from(shards)
        })
        .await;
        load.reaches(puts).await;
    }
    let history = within("the end of the load", LONG, load.drain()).await;
    let violations = check(&history, &Permit { late: Some(late), ..Permit::default() });
    assert!(violations.is_empty(), "{violations:#?}");
    let numbers = Admin::new(operator).count(&load::topic()).await.unwrap();
    assert!(numbers.balances() && numbers.pending() == 0, "{numbers:?}");
    assert!(numbers.cancelled > 0 && numbers.delivered > 3 * PUTS as u64 / 2, "{numbers:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_single_timer_follows_a_growth_under_load() {
    let server = RedisServer::start().await;
    Client::new(settings(&server, 4)).init().await.unwrap();
    let timer = Running::single(&server).await;
    grows_under_load(&server, std::slice::from_ref(&timer), Duration::from_secs(2)).await;
    timer.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn timers_of_a_group_share_the_shards_of_a_growth_under_load() {
    let (server, etcd) = (RedisServer::start().await, EtcdCluster::start_one().await);
    Client::new(settings(&server, 4)).init().await.unwrap();
    let timers = [Running::member(&server, &etcd, "one").await, Running::member(&server, &etcd, "two").await];
    wait_until("the shards to be shared", SHORT, || async { timers.iter().all(|timer| timer.owns() == 2) })
        .await;
    grows_under_load(&server, &timers, Duration::from_secs(5)).await;
    wait_until("the shards to be shared", SHORT, || async { timers.iter().all(|timer| timer.owns() == 6) })
        .await;
    for timer in timers {
        timer.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timer_that_has_nothing_to_do_follows_as_well() {
    let server = RedisServer::start().await;
    let client = Client::new(settings(&server, 4));
    client.init().await.unwrap();
    let timer = Running::single(&server).await;
    Admin::new(client).grow(count(9), |_| {}).await.unwrap();
    // Long before its next look, five seconds after the last one.
    wait_until("the new shards to be owned", Duration::from_secs(3), || async { timer.owns() == 9 }).await;
    timer.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timer_whose_configuration_is_from_before_a_growth_owns_every_shard() {
    let (server, etcd) = (RedisServer::start().await, EtcdCluster::start_one().await);
    let client = Client::new(settings(&server, 4));
    client.init().await.unwrap();
    Admin::new(client).grow(count(9), |_| {}).await.unwrap();
    let single = Running::single(&server).await;
    assert_eq!(single.owns(), 9);
    single.stop().await;
    let member = Running::member(&server, &etcd, "one").await;
    wait_until("every shard to be owned", SHORT, || async { member.owns() == 9 }).await;
    member.stop().await;
}
