//! The steppable clock, under a real redis-server.

use delayq_tests::clock_shim::ClockShim;
use delayq_tests::redis_server::{RedisOptions, RedisServer, SharedRedis};

async fn seconds_of(server: &SharedRedis) -> i64 {
    server.command::<(i64, i64)>(&["TIME"]).await.0
}

#[tokio::test]
async fn a_step_moves_the_time_that_redis_tells() {
    let clock = ClockShim::new();
    let stepped = RedisServer::start_with(RedisOptions::default().clock(&clock)).await;
    let steady = RedisServer::private().await;
    for offset_s in [0, 2 * 86_400, -10, 10] {
        clock.set_offset_ms(offset_s * 1000);
        let ahead = seconds_of(&stepped).await - seconds_of(&steady).await;
        assert!((ahead - offset_s).abs() <= 1, "asked for {offset_s} s, got {ahead} s");
    }
}

#[tokio::test]
async fn a_step_ends_a_time_to_live_at_once() {
    let clock = ClockShim::new();
    let server = RedisServer::start_with(RedisOptions::default().clock(&clock)).await;
    let () = server.command(&["SET", "k", "v", "EX", "86400"]).await;
    clock.set_offset_ms(2 * 86_400_000);
    assert_eq!(server.command::<Option<String>>(&["GET", "k"]).await, None);
}
