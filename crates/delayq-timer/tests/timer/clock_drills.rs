//! Redis's clock is stepped, and hours pass while no timer runs.

use crate::bounds::CLOCK;
use crate::drill::Drill;
use crate::fleet::Fleet;
use crate::stand::{Running, Stand};
use delayq_tests::clock_shim::ClockShim;
use delayq_tests::deadline::{SHORT, wait_until};
use delayq_tests::etcd_server::EtcdCluster;
use delayq_tests::redis_server::{RedisOptions, RedisServer};
use delayq_tests::timing::{Timing, conclusive};
use std::time::{Duration, Instant};

/// Steady time required after a step: long enough that a poll sees the hold.
const STEADY_MS: u64 = 5_000;
const STEADY: Duration = Duration::from_millis(STEADY_MS);
const HOUR_MS: u64 = 3_600_000;
const DAY_MS: i64 = 86_400_000;

async fn stepped() -> (Drill, ClockShim) {
    let clock = ClockShim::new();
    let server = RedisServer::private_with(RedisOptions::default().clock(&clock)).await;
    let mut fleet = Fleet::on(Stand::on(server, 8).await, EtcdCluster::start_one().await);
    fleet.times.steady = STEADY;
    (Drill::new(fleet).await, clock)
}

/// Runs a load to its end; returns the number of ready messages, unanswered puts included.
async fn loaded(drill: &Drill) -> usize {
    drill.load().await.stop().await;
    let count = drill.accepted();
    wait_until("the load to be through", SHORT, || async { drill.stand().ready().await >= count }).await;
    drill.stand().ready().await
}

async fn held_and_let_go(timers: &[&Running]) {
    for timer in timers {
        timer.exceeds("delayq_timer_clock_jumps_total", 0.0).await;
    }
    for timer in timers {
        timer.reaches("delayq_timer_clock_held", 0.0).await;
        timer.is_ready().await;
    }
}

/// Asserts that no more than `before` are ready, unless the hold may have ended before this look.
async fn nothing_moved(drill: &Drill, before: usize, since: Instant) -> Timing {
    let (ready, took) = (drill.stand().ready().await, since.elapsed());
    if ready != before && took >= STEADY {
        return Timing::Inconclusive(format!("the holds were seen after {took:?}"));
    }
    assert_eq!(ready, before, "something went out by a clock that is not trusted");
    Timing::Kept
}

/// Steps the clock before messages are due: between the step and the end of the hold nothing may move.
async fn step(ahead_ms: i64) {
    conclusive(async || {
        let (drill, clock) = stepped().await;
        let (one, other) = drill.pair().await;
        let before = loaded(&drill).await;
        // Due at the earliest end of the hold, by a clock without steps.
        let (since, due) = (Instant::now(), drill.stand().now_ms().await + STEADY_MS);
        drill.put((0..500).map(|n| due + n)).await;
        clock.set_offset_ms(ahead_ms);
        drill.stand().all_held(true).await;
        let due_now = drill.stand().now_ms().await;
        drill.put([due_now - 1_000, due_now + 1]).await;
        let held = nothing_moved(&drill, before, since).await;
        held_and_let_go(&[&one, &other]).await;
        drill.load().await.stop().await;
        // By the new clock, messages put before the step are late by the step, and later messages are not:
        // the clock at a message's readiness judges that message.
        let late =
            CLOCK.late(drill.fleet.times) + Duration::from_millis(u64::try_from(ahead_ms.max(0)).unwrap());
        held.and(drill.judge_within(CLOCK.fault, late).await.timing)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_stepped_ten_seconds_ahead_lets_nothing_out_until_it_is_steady() {
    step(10_000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_stepped_ten_seconds_back_lets_nothing_out_until_it_is_steady() {
    step(-10_000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_stepped_two_days_ahead_and_put_right_lets_nothing_out_before_its_time() {
    conclusive(async || {
        let (drill, clock) = stepped().await;
        let (one, other) = drill.pair().await;
        let count = loaded(&drill).await;
        // Due in hours: by a clock two days ahead all messages are overdue.
        let (now, since) = (drill.stand().now_ms().await, Instant::now());
        drill.put((0..2_000).map(|n| now + HOUR_MS + n * 7_001)).await;
        clock.set_offset_ms(2 * DAY_MS);
        one.reaches("delayq_timer_clock_held", 1.0).await;
        other.reaches("delayq_timer_clock_held", 1.0).await;
        clock.set_offset_ms(0);
        for timer in [&one, &other] {
            timer.exceeds("delayq_timer_clock_jumps_total", 1.0).await;
        }
        held_and_let_go(&[&one, &other]).await;
        assert_eq!(drill.stand().ready().await, count, "messages of tomorrow went out by a wrong clock");
        // Their time comes without a step: the timers start over, as after a night.
        one.stop().await;
        other.stop().await;
        clock.set_offset_ms(6 * i64::try_from(HOUR_MS).unwrap());
        let overdue = Duration::from_millis(5 * HOUR_MS) + since.elapsed();
        let next = drill.timer("next").await;
        next.owns(8).await;
        drill.judge_within(CLOCK.fault, overdue + CLOCK.late(drill.fleet.times)).await.timing
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn three_hours_of_due_times_without_a_timer_go_out_when_two_are_started() {
    conclusive(async || {
        const COUNT: u64 = 4_000;
        let (drill, clock) = stepped().await;
        let (now, since) = (drill.stand().now_ms().await, Instant::now());
        drill.put((0..COUNT).map(|n| now + n * 3 * HOUR_MS / COUNT)).await;
        clock.set_offset_ms(3 * i64::try_from(HOUR_MS).unwrap());
        let overdue = Duration::from_millis(3 * HOUR_MS) + since.elapsed();
        let (_one, _other) = drill.pair().await;
        let late = overdue + Duration::from_secs(5);
        drill.judge_within("every timer was down for three hours", late).await.timing
    })
    .await;
}
