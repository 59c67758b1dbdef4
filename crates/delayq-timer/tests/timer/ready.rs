//! Readiness means that due messages move, not only that Redis and etcd answer.

use crate::stand::{Stand, polling};
use delayq::protocol::ShardId;
use std::time::{Duration, Instant};

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_whose_pumps_cannot_move_what_is_due_is_not_ready_until_they_can() {
    let stand = Stand::new(2).await;
    let timer = stand.timer_with(polling(Duration::from_millis(500)), "one").await;
    timer.is_ready().await;
    stand.put_into(ShardId::new(0), [stand.now_ms().await + 500]).await;
    // All commands work, except the command that makes a message ready.
    let () = stand.server.command(&["ACL", "SETUSER", "default", "-rpush"]).await;
    timer.reaches("delayq_timer_stalled", 1.0).await;
    let why = timer.unready().await;
    assert!(why.contains("cannot be moved"), "{why}");
    let since = Instant::now();
    // Neither the renewed locks nor the polls of the other shard restore readiness in between.
    while since.elapsed() < Duration::from_secs(2) {
        assert!(!timer.readiness.unready().is_empty(), "ready, though a message is overdue and cannot move");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    timer.exceeds("delayq_timer_oldest_overdue_seconds", 2.0).await;
    let () = stand.server.command(&["ACL", "SETUSER", "default", "+rpush"]).await;
    stand.all_ready(1).await;
    timer.is_ready().await;
    timer.reaches("delayq_timer_stalled", 0.0).await;
    timer.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_is_not_ready_while_redis_refuses_writes_though_nothing_is_due() {
    let stand = Stand::new(2).await;
    let timer = stand.timer_with(polling(Duration::from_millis(500)), "one").await;
    timer.is_ready().await;
    let () = stand.server.command(&["CONFIG", "SET", "min-replicas-to-write", "1"]).await;
    let reason = timer.unready().await;
    assert!(reason.contains("Redis cannot be used"), "{reason}");
    let () = stand.server.command(&["CONFIG", "SET", "min-replicas-to-write", "0"]).await;
    timer.is_ready().await;
    timer.stop().await;
}
