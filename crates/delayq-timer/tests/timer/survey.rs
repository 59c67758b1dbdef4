//! Work for consumers, now and soon, as reported by a timer.

use crate::stand::Stand;
use delayq::protocol::ShardId;
use delayq::{Admin, Topic};
use delayq_service::config::HumanDuration;
use delayq_timer::TimerConfig;

/// Enough shards that the timer asks the first at once.
const SHARDS: u16 = 64;
const FIRST: ShardId = ShardId::new(0);

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_tells_what_is_due_within_each_horizon_before_it_is_ready() {
    let stand = Stand::new(SHARDS).await;
    let horizons = [60, 300].map(HumanDuration::from_secs).to_vec();
    let timer = stand.timer_with(TimerConfig { horizons, ..TimerConfig::default() }, "one").await;
    let now = stand.now_ms().await;
    let after = [50_000, 52_000, 200_000, 290_000, 1_000_000];
    stand.put_into(FIRST, after.map(|ms| now + ms)).await;
    stand.put_into(FIRST, [now]).await;
    timer.reaches("delayq_timer_due_messages{within=\"5m\"}", 4.0).await;
    timer.reaches("delayq_timer_due_messages{within=\"1m\"}", 2.0).await;
    timer.reaches("delayq_timer_ready_messages{state=\"free\"}", 1.0).await;
    Admin::new(stand.client.clone()).topic(&Topic::new("notices").unwrap()).pause().await.unwrap();
    timer.reaches("delayq_timer_ready_messages{state=\"held\"}", 1.0).await;
    timer.reaches("delayq_timer_ready_messages{state=\"free\"}", 0.0).await;
    timer.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_tells_for_how_long_nobody_has_taken_what_is_ready() {
    let stand = Stand::new(SHARDS).await;
    stand.put_into(FIRST, [stand.now_ms().await]).await;
    let timer = stand.timer_with(TimerConfig { horizons: Vec::new(), ..TimerConfig::default() }, "one").await;
    timer.reaches("delayq_timer_ready_messages{state=\"free\"}", 1.0).await;
    timer.exceeds("delayq_timer_oldest_ready_seconds", 1.0).await;
    assert!(!timer.metrics.encode().contains("delayq_timer_due_messages{"), "without horizons");
    timer.stop().await;
}
