//! On time and never early: across the hour's edge, after a long rest, in a storm, at random times.

use crate::stand::{Stand, client};
use delayq::Admin;
use delayq::protocol::ShardId;
use delayq_tests::clock_shim::ClockShim;
use delayq_tests::deadline::{SHORT, wait_until};
use delayq_tests::redis_server::{RedisOptions, RedisServer};
use delayq_tests::stall::Stall;
use delayq_tests::timing::conclusive;
use std::time::{Duration, Instant};

const HOUR_MS: u64 = 3_600_000;

async fn before_the_hour(ahead_ms: u64) -> (Stand, ClockShim, u64) {
    let clock = ClockShim::new();
    let server = RedisServer::private_with(RedisOptions::default().clock(&clock)).await;
    let stand = Stand::on(server, 4).await;
    let now = stand.now_ms().await;
    let edge = now - now % HOUR_MS + HOUR_MS;
    clock.set_offset_ms(i64::try_from(edge - ahead_ms - now).unwrap());
    (stand, clock, edge)
}

/// Twenty messages for each ms from two before the edge to two after.
fn around(edge: u64) -> impl Iterator<Item = u64> {
    (edge - 2..=edge + 2).flat_map(|due| std::iter::repeat_n(due, 20))
}

#[tokio::test(flavor = "multi_thread")]
async fn across_the_hours_edge_all_are_ready_in_order_and_none_early() {
    conclusive(async || {
        let ((stand, _clock, edge), stall) = (before_the_hour(3_000).await, Stall::watch());
        let timer = stand.timer().await;
        let count = stand.put(around(edge)).await;
        let late = stand.all_ready(count).await;
        let timing =
            stall.judge("the median", Duration::from_micros(late[count / 2]), Duration::from_millis(50));
        let became = stand.became().await;
        let descents = became.windows(2).filter(|pair| pair[0].due_ms > pair[1].due_ms).count();
        assert!(descents < 4, "each of four shards is in order: {became:?}");
        timer.stop().await;
        timing
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_started_at_the_hours_edge_finds_both_buckets() {
    let (stand, _clock, edge) = before_the_hour(400).await;
    let count = stand.put(around(edge)).await;
    wait_until("the edge", SHORT, || async { stand.now_ms().await + 3 >= edge }).await;
    let timer = stand.timer().await;
    stand.all_ready(count).await;
    timer.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_started_after_the_hours_edge_finds_both_buckets() {
    let (stand, clock, edge) = before_the_hour(400).await;
    let count = stand.put(around(edge)).await;
    clock.set_offset_ms(2 * HOUR_MS as i64);
    let timer = stand.timer().await;
    stand.all_ready(count).await;
    timer.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn several_overdue_hours_go_out_in_order_of_their_due_times() {
    let clock = ClockShim::new();
    let server = RedisServer::private_with(RedisOptions::default().clock(&clock)).await;
    let stand = Stand::on(server, 2).await;
    let now = stand.now_ms().await;
    let hours = (0..3_000).map(|n| now + 60_000 + n * 3_777);
    let count = stand.put(hours).await;
    clock.set_offset_ms(5 * HOUR_MS as i64);
    let timer = stand.timer().await;
    stand.all_ready(count).await;
    // Each bucket of an hour gets a fair share of a call, so the order is strict only within an hour.
    let became = stand.became().await;
    for hour in 0..=4 {
        let due: Vec<u64> = became
            .iter()
            .filter(|b| (b.due_ms / HOUR_MS) == now / HOUR_MS + hour)
            .map(|b| b.due_ms)
            .collect();
        let descents = due.windows(2).filter(|pair| pair[0] > pair[1]).count();
        assert!(descents <= 1, "each of two shards is in order: {descents} descents in hour {hour}");
    }
    timer.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storm_at_one_instant_is_ready_soon_and_delays_no_ping() {
    conclusive(async || {
        let clock = ClockShim::new();
        let server = RedisServer::private_with(RedisOptions::default().clock(&clock)).await;
        let (stand, stall) = (Stand::on(server, 16).await, Stall::watch());
        let due = stand.now_ms().await + HOUR_MS;
        let count = stand.put(std::iter::repeat_n(due, 20_000)).await;
        // However long that took: a timer that starts afterwards has five seconds left to be ready in.
        clock.set_offset_ms(i64::try_from(due - stand.now_ms().await).unwrap() - 5_000);
        let timer = stand.timer().await;
        let started = stand.now_ms().await;
        wait_until("the last ms before the storm", SHORT, || async { stand.now_ms().await + 5 >= due }).await;
        let other = client(&stand.server.url(), 16);
        let mut waits = Vec::new();
        while stand.ready().await < count {
            for _ in 0..16 {
                let asked = Instant::now();
                Admin::new(other.clone()).shards().overview_of(&[ShardId::new(0)]).await.remove(0).unwrap();
                waits.push(asked.elapsed());
            }
        }
        let late = stand.all_ready(count).await;
        waits.sort_unstable();
        let longest = waits[waits.len() * 99 / 100];
        println!("storm: last after {} ms, another client waits p99 {longest:?}", late[count - 1] / 1000);
        let last = Duration::from_micros(late[count - 1]);
        timer.stop().await;
        let begun_late = Duration::from_millis(started.saturating_sub(due));
        let last = stall.judge("the last of the storm", last, Duration::from_secs(2) + begun_late);
        last.and(stall.judge("another client's p99", longest, Duration::from_millis(20)))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_at_random_times_are_ready_within_their_millisecond_or_near_it() {
    conclusive(async || {
        let (stand, stall) = (Stand::new(8).await, Stall::watch());
        let timer = stand.timer().await;
        let start = stand.now_ms().await + 500;
        let count = stand.put((0..2_000).map(|n| start + n * 7_919 % 2_000)).await;
        let late = stand.all_ready(count).await;
        let at = |permille: usize| late[(count - 1) * permille / 1000];
        println!("lateness at 1,000/s: p50 {} µs, p99 {} µs, max {} µs", at(500), at(990), at(1000));
        let (calls, empty) = (
            timer.metric("delayq_timer_pump_calls_total"),
            timer.metric("delayq_timer_pump_calls_total{outcome=\"empty\"}"),
        );
        println!("{calls} calls, {empty} of them empty");
        // Redis moves the last messages before the timer has the answer.
        timer.exceeds("delayq_lateness_seconds_count", count as f64 - 0.5).await;
        timer.stop().await;
        stall.judge("the median", Duration::from_micros(at(500)), Duration::from_millis(5))
    })
    .await;
}
