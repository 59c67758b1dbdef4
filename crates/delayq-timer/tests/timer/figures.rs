//! The fleet's figures, measured: `cargo test --release -p delayq-timer --test timer -- --ignored --nocapture figures`.

use crate::fleet::Fleet;
use crate::stand::{Became, Running, Stand};
use delayq::Admin;
use delayq::protocol::ShardId;
use delayq_tests::deadline::{LONG, wait_until};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Puts messages due at random ms at this rate, all before the first is due, and waits until shortly before that time.
async fn steady(stand: &Stand, a_second: u64, seconds: u64, ahead: Duration) -> usize {
    let start = stand.now_ms().await + ahead.as_millis() as u64;
    let span = seconds * 1_000;
    let count = stand.put((0..a_second * seconds).map(|n| start + n * 7_919 % span)).await;
    assert!(stand.now_ms().await < start, "the puts took too long to be out of the way");
    wait_until("the start", LONG, || async { stand.now_ms().await + 50 >= start }).await;
    count
}

fn percentiles(what: &str, sorted_us: &[u64]) {
    let at = |permille: usize| sorted_us[(sorted_us.len() - 1) * permille / 1000];
    println!(
        "{what}: p50 {} p90 {} p99 {} p99.9 {} max {} µs of {}",
        at(500),
        at(900),
        at(990),
        at(999),
        at(1000),
        sorted_us.len()
    );
}

fn calls(timers: &[&Running]) {
    let sum = |name: &str| timers.iter().map(|timer| timer.metric(name)).sum::<f64>();
    let (calls, empty) =
        (sum("delayq_timer_pump_calls_total"), sum("delayq_timer_pump_calls_total{outcome=\"empty\"}"));
    println!("{calls} calls, {empty} empty: {:.2} %", 100.0 * empty / calls);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures for half a minute"]
async fn figures_of_steady_lateness_with_two_timers() {
    for rate in [1_000, 10_000] {
        let fleet = Fleet::with(64).await;
        let (one, other) = (fleet.timer("one").await, fleet.timer("other").await);
        fleet.share(&[&one, &other]).await;
        steady_run(&fleet.stand, rate, 5, &[&one, &other]).await;
        one.stop().await;
        other.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures for a minute"]
async fn figures_of_steady_lateness_with_many_shards_on_one_timer() {
    for shards in [16, 256, 1_024] {
        let stand = Stand::new(shards).await;
        let timer = stand.timer().await;
        println!("{shards} shards on one timer");
        // Long enough for two looks at every shard.
        steady_run(&stand, 1_000, 12, &[&timer]).await;
        timer.stop().await;
    }
}

async fn steady_run(stand: &Stand, rate: u64, seconds: u64, timers: &[&Running]) {
    let count = steady(stand, rate, seconds, Duration::from_secs(5 * seconds.div_ceil(5))).await;
    let before = cpu_seconds(stand).await;
    let end = stand.now_ms().await + seconds * 1_000 + 50;
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    wait_until("the end", LONG, || async { stand.now_ms().await >= end }).await;
    let share = 100.0 * (cpu_seconds(stand).await - before) / seconds as f64;
    percentiles(&format!("lateness at {rate}/s"), &stand.all_ready(count).await);
    percentiles("in its calmest second", &calmest_second(&stand.became().await));
    println!("Redis at {share:.1} % of a core");
    calls(timers);
}

/// Latenesses of the due second with the least p99, which other programs on the machine disturbed least.
fn calmest_second(became: &[Became]) -> Vec<u64> {
    let mut seconds: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for message in became {
        seconds.entry(message.due_ms / 1_000).or_default().push(message.late_us());
    }
    let whole = seconds.values().map(Vec::len).max().unwrap_or(0) * 9 / 10;
    let mut seconds: Vec<Vec<u64>> = seconds.into_values().filter(|late| late.len() >= whole).collect();
    seconds.iter_mut().for_each(|late| late.sort_unstable());
    seconds.into_iter().min_by_key(|late| late[late.len() * 99 / 100]).unwrap()
}

async fn cpu_seconds(stand: &Stand) -> f64 {
    let info: String = stand.server.command(&["INFO", "cpu"]).await;
    let of = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok());
    of("used_cpu_user:").unwrap_or(0.0) + of("used_cpu_sys:").unwrap_or(0.0)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures"]
async fn figures_of_a_storm_with_two_timers() {
    let fleet = Fleet::with(16).await;
    let (one, other) = (fleet.timer("one").await, fleet.timer("other").await);
    fleet.share(&[&one, &other]).await;
    let due = fleet.stand.now_ms().await + 6_000;
    let count = fleet.stand.put(vec![due; 50_000]).await;
    let another = Admin::new(crate::stand::client(&fleet.stand.server.url(), 16));
    let mut waits = Vec::new();
    while fleet.stand.now_ms().await < due + 400 {
        for _ in 0..32 {
            let asked = Instant::now();
            another.shards().overview_of(&[ShardId::new(0)]).await.remove(0).unwrap();
            waits.push(u64::try_from(asked.elapsed().as_micros()).unwrap());
        }
    }
    percentiles("a storm of 50,000", &fleet.stand.all_ready(count).await);
    waits.sort_unstable();
    percentiles("another client's waits, before and during it", &waits);
    calls(&[&one, &other]);
    one.stop().await;
    other.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures"]
async fn figures_of_handing_over_256_shards() {
    let fleet = Fleet::with(256).await;
    let (one, other) = (fleet.timer("one").await, fleet.timer("other").await);
    fleet.share(&[&one, &other]).await;
    let start = fleet.stand.now_ms().await;
    let count = fleet.stand.put((0..5_000).map(|n| start + 1_000 + n)).await;
    wait_until("the load to run", LONG, || async { fleet.stand.now_ms().await > start + 2_000 }).await;
    let third = fleet.timer("third").await;
    fleet.share(&[&one, &other, &third]).await;
    println!("a third timer shares after {} ms", fleet.stand.now_ms().await - start - 2_000);
    wait_until("the next part", LONG, || async { fleet.stand.now_ms().await > start + 4_000 }).await;
    let asked = Instant::now();
    third.stop().await;
    println!("handed over in {:?}", asked.elapsed());
    percentiles("lateness meanwhile", &fleet.stand.all_ready(count).await);
    one.stop().await;
    other.stop().await;
}
