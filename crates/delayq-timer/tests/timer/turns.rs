//! The loop turns for events and nothing else, in any state.

use crate::fleet::Fleet;
use crate::stand::{Running, Stand, polling};
use delayq::protocol::Owner;
use delayq::{Admin, ShardCount};
use delayq_service::config::HumanDuration;
use delayq_tests::clock_shim::ClockShim;
use delayq_tests::deadline::{SHORT, wait_until};
use delayq_tests::redis_server::{RedisOptions, RedisServer};
use delayq_timer::TimerConfig;
use std::time::Duration;

/// Quiet time in which the turns are counted.
const REST: Duration = Duration::from_secs(2);
/// Turns in that time: looks, repeated claims, heartbeats, each with an answer. A spinning loop turns tens of
/// thousands of times.
const CALM: f64 = 400.0;

/// Longer than any of these tests: only requested work happens.
fn seldom() -> TimerConfig {
    polling(Duration::from_secs(6))
}

async fn turns_calmly(state: &str, timer: &Running) {
    let before = timer.metric("delayq_timer_turns_total");
    // The time itself is measured.
    tokio::time::sleep(REST).await;
    let turns = timer.metric("delayq_timer_turns_total") - before;
    println!("{state}: {turns} turns in {REST:?}");
    assert!((1.0..CALM).contains(&turns), "{state}: {turns} turns in {REST:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_single_timer_survives_fourteen_seconds_without_redis() {
    let stand = Stand::new(4).await;
    let timer = stand.timer_with(seldom(), "one").await;
    turns_calmly("owning", &timer).await;
    stand.server.freeze();
    assert!(timer.unready().await.contains("Redis"));
    // Beyond the time that a member of a fleet waits before giving its shards to others.
    tokio::time::sleep(Duration::from_secs(4)).await;
    turns_calmly("Redis away", &timer).await;
    tokio::time::sleep(Duration::from_secs(6)).await;
    stand.server.thaw();
    timer.is_ready().await;
    let count = stand.put([stand.now_ms().await + 20]).await;
    stand.all_ready(count).await;
    turns_calmly("Redis back", &timer).await;
    timer.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_that_cannot_write_or_is_held_does_not_spin() {
    let clock = ClockShim::new();
    let server = RedisServer::private_with(RedisOptions::default().clock(&clock)).await;
    let stand = Stand::on(server, 4).await;
    let steady =
        TimerConfig { clock_steady: HumanDuration::from_secs(60), ..polling(Duration::from_secs(1)) };
    let timer = stand.timer_with(steady, "one").await;
    stand.put([stand.now_ms().await + 500]).await;
    let () = stand.server.command(&["CONFIG", "SET", "min-replicas-to-write", "1"]).await;
    assert!(timer.unready().await.contains("Redis"));
    turns_calmly("writes refused", &timer).await;
    let () = stand.server.command(&["CONFIG", "SET", "min-replicas-to-write", "0"]).await;
    timer.is_ready().await;
    clock.set_offset_ms(60_000);
    timer.reaches("delayq_timer_clock_held", 1.0).await;
    turns_calmly("held, with something overdue", &timer).await;
    timer.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_single_timer_without_its_lock_or_its_shards_does_not_spin() {
    let stand = Stand::new(2).await;
    let timer = stand.timer_with(polling(Duration::from_millis(500)), "one").await;
    for lock in [Duration::ZERO, Duration::from_secs(60)] {
        let shards: Vec<_> = stand.client.shards().shards().collect();
        Owner::new(stand.client.clone()).claim(&shards, "usurper", lock).await.remove(0).unwrap();
    }
    stand.put([stand.now_ms().await + 10]).await;
    timer.reaches("delayq_timer_shards", 0.0).await;
    turns_calmly("locked out", &timer).await;
    let () = stand.server.command(&["FLUSHALL"]).await;
    wait_until("it to miss its shards", SHORT, || async {
        timer.readiness.unready().first().is_some_and(|unready| unready.reason.contains("does not exist"))
    })
    .await;
    turns_calmly("no shards in Redis", &timer).await;
    timer.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn members_of_a_fleet_do_not_spin_whatever_is_away() {
    let fleet = Fleet::with(4).await;
    let (one, other) = (fleet.timer("one").await, fleet.timer("other").await);
    fleet.share(&[&one, &other]).await;
    turns_calmly("a member", &one).await;
    fleet.stand.server.freeze();
    one.reaches("delayq_timer_hindered", 1.0).await;
    turns_calmly("hindered", &one).await;
    fleet.stand.server.thaw();
    one.reaches("delayq_timer_hindered", 0.0).await;
    fleet.etcd.freeze();
    one.reaches("delayq_timer_degraded", 1.0).await;
    turns_calmly("degraded", &one).await;
    fleet.stand.server.freeze();
    tokio::time::sleep(Duration::from_secs(4)).await;
    turns_calmly("hindered and degraded", &one).await;
    one.ask_to_stop();
    assert!(one.unready().await.len() > 1);
    turns_calmly("handing over, with Redis and etcd away", &one).await;
    fleet.stand.server.thaw();
    fleet.etcd.thaw();
    one.stop().await;
    other.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_spare_timer_does_not_spin() {
    let fleet = Fleet::with(1).await;
    let one = fleet.timer("one").await;
    one.owns(1).await;
    let spare = fleet.timer("spare").await;
    turns_calmly("no shards", &spare).await;
    spare.stop().await;
    one.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_that_grows_does_not_make_it_spin() {
    let stand = Stand::new(2).await;
    let timer = stand.timer_with(seldom(), "one").await;
    Admin::new(stand.client.clone()).shards().grow(ShardCount::new(4).unwrap(), |_| {}).await.unwrap();
    timer.owns(4).await;
    turns_calmly("grown", &timer).await;
    timer.stop().await;
}
