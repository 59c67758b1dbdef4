//! What a timer costs while there is nothing to do.

use crate::stand::{Stand, looking};
use std::time::{Duration, Instant};

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_shard_costs_one_look_at_a_time() {
    const SHARDS: u16 = 16;
    const LOOK: Duration = Duration::from_millis(500);
    let stand = Stand::new(SHARDS).await;
    let far = stand.now_ms().await + 86_400_000;
    stand.put((0..1_000).map(|n| far + n)).await;
    let timer = stand.timer_with(looking(LOOK), "one").await;
    let (before, since) = (scripts_run(&stand).await, Instant::now());
    let looks = timer.metric("delayq_timer_pump_calls_total");
    while since.elapsed() < 5 * LOOK {
        tokio::time::sleep(LOOK / 5).await;
    }
    let (run, looks_due) =
        (scripts_run(&stand).await - before, since.elapsed().as_secs_f64() / LOOK.as_secs_f64());
    let a_shard = run as f64 / f64::from(SHARDS);
    assert!(a_shard <= looks_due + 1.0, "{a_shard} calls a shard in the time of {looks_due} looks");
    assert!(timer.metric("delayq_timer_pump_calls_empty_total") < 1.0, "nothing was due");
    assert!(timer.metric("delayq_timer_pump_calls_total") - looks < 1.0, "renewing the lock is the look");
    timer.stop().await;
}

/// How many scripts Redis ran so far.
async fn scripts_run(stand: &Stand) -> u64 {
    let info: String = stand.server.command(&["INFO", "commandstats"]).await;
    let line = info.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    line.and_then(|line| line.split(',').next()?.parse().ok()).unwrap_or(0)
}
