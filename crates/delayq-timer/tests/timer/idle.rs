//! The cost of a timer without work.

use crate::stand::{Stand, polling};
use delayq_tests::deadline::{LONG, wait_until};
use std::cell::Cell;
use std::time::{Duration, Instant};

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_shard_costs_one_poll_at_a_time() {
    const SHARDS: u16 = 16;
    const POLL: Duration = Duration::from_millis(500);
    let stand = Stand::new(SHARDS).await;
    let far = stand.now_ms().await + 86_400_000;
    stand.put((0..1_000).map(|n| far + n)).await;
    let timer = stand.timer_with(polling(POLL), "one").await;
    // The first stretches may still contain work of the start, such as a late subscription.
    let quiet = Cell::new(0);
    wait_until("three stretches in a row with nothing but polls", LONG, || async {
        let (before, since) = (stand.server.scripts_run().await, Instant::now());
        let polls = timer.metric("delayq_timer_pump_calls_total");
        let enough = before + 5 * u64::from(SHARDS);
        wait_until("five calls a shard", LONG, async || stand.server.scripts_run().await >= enough).await;
        let a_shard = (stand.server.scripts_run().await - before) as f64 / f64::from(SHARDS);
        let due = since.elapsed().as_secs_f64() / POLL.as_secs_f64();
        let pumped = timer.metric("delayq_timer_pump_calls_total") - polls;
        println!("{a_shard} calls a shard in the time of {due} polls, {pumped} of them pumps");
        // A claim renews the lock, and a pump leaves a mark.
        let is_quiet = a_shard <= 2.0 * (due + 1.0) && pumped / f64::from(SHARDS) <= due + 1.0;
        quiet.set(if is_quiet { quiet.get() + 1 } else { 0 });
        quiet.get() == 3
    })
    .await;
    assert!(
        timer.metric("delayq_timer_pump_calls_total{outcome=\"empty\"}") <= f64::from(SHARDS),
        "nothing was due"
    );
    timer.stop().await;
}
