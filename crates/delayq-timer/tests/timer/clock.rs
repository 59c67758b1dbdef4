//! The clock guard: a step of Redis's clock holds the shards until the clock is steady.

use crate::stand::{Running, Stand, polling};
use delayq_service::config::HumanDuration;
use delayq_tests::clock_shim::ClockShim;
use delayq_tests::redis_server::{RedisOptions, RedisServer};
use delayq_timer::TimerConfig;
use std::time::Duration;

async fn stepped(steady_ms: u64) -> (Stand, ClockShim, Running) {
    let clock = ClockShim::new();
    let server = RedisServer::private_with(RedisOptions::default().clock(&clock)).await;
    let stand = Stand::on(server, 4).await;
    let config = TimerConfig {
        clock_steady: HumanDuration::from_millis(steady_ms),
        ..polling(Duration::from_millis(200))
    };
    let timer = stand.timer_with(config, "one").await;
    (stand, clock, timer)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_stepped_ten_seconds_ahead_holds_the_shards_until_it_is_steady() {
    let (stand, clock, timer) = stepped(10_000).await;
    clock.set_offset_ms(10_000);
    timer.exceeds("delayq_timer_clock_jumps_total", 0.0).await;
    stand.all_held(true).await;
    assert!(timer.unready().await.contains("clock"));
    assert!(timer.metric("delayq_timer_clock_held") > 0.5);
    // Messages due by the new clock wait until the clock is trusted; so do messages put meanwhile.
    let count = stand.put([stand.now_ms().await - 5_000, stand.now_ms().await + 10]).await;
    assert_eq!(stand.ready().await, 0);
    stand.all_held(false).await;
    stand.all_ready(count).await;
    timer.is_ready().await;
    timer.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_stepped_ten_seconds_back_holds_the_shards_and_nothing_is_early() {
    let (stand, clock, timer) = stepped(5_000).await;
    clock.set_offset_ms(-10_000);
    timer.exceeds("delayq_timer_clock_jumps_total", 0.0).await;
    stand.all_held(true).await;
    stand.all_held(false).await;
    let count = stand.put([stand.now_ms().await + 100]).await;
    stand.all_ready(count).await;
    timer.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_below_the_bound_holds_nothing() {
    let (stand, clock, timer) = stepped(60_000).await;
    clock.set_offset_ms(400);
    let count = stand.put([stand.now_ms().await + 300]).await;
    stand.all_ready(count).await;
    assert!(timer.metric("delayq_timer_clock_jumps_total") < 0.5);
    timer.stop().await;
}

async fn takes_writes(stand: &Stand, takes: bool) {
    let replicas = if takes { "0" } else { "1" };
    let () = stand.server.command(&["CONFIG", "SET", "min-replicas-to-write", replicas]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_step_while_writes_are_refused_stops_no_shard_for_good() {
    let (stand, clock, timer) = stepped(1_500).await;
    takes_writes(&stand, false).await;
    clock.set_offset_ms(10_000);
    timer.exceeds("delayq_timer_clock_jumps_total", 0.0).await;
    // No hold is acknowledged, and the clock is steady again before a hold could be.
    timer.reaches("delayq_timer_clock_held", 0.0).await;
    takes_writes(&stand, true).await;
    let due = stand.now_ms().await + 300;
    let count = stand.put((0..100).map(|n| due + n)).await;
    stand.all_ready(count).await;
    timer.is_ready().await;
    assert!(
        timer.metric("delayq_timer_rescued_total") < 0.5,
        "the owner pumps, and not a timer that sees it overdue"
    );
    timer.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_of_which_nobody_was_told_is_found_and_ended() {
    let (stand, _clock, timer) = stepped(500).await;
    for shard in 0..4 {
        let _: u64 = stand.server.command(&["HSET", &format!("{{dq:{shard}}}:meta"), "hold", "1"]).await;
    }
    let due = stand.now_ms().await + 20;
    let count = stand.put((0..64).map(|n| due + n)).await;
    stand.all_ready(count).await;
    stand.all_held(false).await;
    timer.is_ready().await;
    timer.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_that_a_dead_timer_left_is_ended_by_the_next() {
    let (stand, clock, timer) = stepped(60_000).await;
    clock.set_offset_ms(10_000);
    stand.all_held(true).await;
    timer.kill().await;
    let config =
        TimerConfig { clock_steady: HumanDuration::from_millis(500), ..polling(Duration::from_millis(200)) };
    let count = stand.put([stand.now_ms().await + 10]).await;
    let next = stand.timer_with(config, "one").await;
    stand.all_ready(count).await;
    stand.all_held(false).await;
    next.stop().await;
}
