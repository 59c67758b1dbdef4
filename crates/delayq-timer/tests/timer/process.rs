//! The program itself: it starts from the environment alone, says what it cannot promise, and drains.

use crate::stand::Stand;
use delayq_tests::binary::Binary;
use delayq_tests::deadline::SHORT;
use delayq_tests::process::Signal;
use delayq_tests::redis_server::RedisServer;

fn timer(redis: &str, shards: u16) -> Binary {
    Binary::new("delayq-timer")
        .env("DELAYQ__REDIS__URL", redis)
        .env("DELAYQ__DEPLOYMENT__SHARDS", shards.to_string())
        .env("DELAYQ__ETCD__ENABLED", "false")
        .env("DELAYQ__ADMIN__LISTEN", "")
        .env("DELAYQ__TIMER__NAME", "alone")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_program_pumps_until_it_is_asked_to_stop_and_gives_its_lock_back() {
    let stand = Stand::new(4).await;
    let mut first = timer(&stand.server.url(), 4).start();
    // What it cannot promise is said.
    first.wait_for_line("single mode", SHORT).await;
    let count = stand.put([stand.now_ms().await + 50]).await;
    stand.all_ready(count).await;
    assert_eq!(first.end_by(Signal::TERM, SHORT).await.code(), Some(0));
    let mut next = timer(&stand.server.url(), 4).start();
    next.wait_for_line("started", SHORT).await;
    assert!(!next.tail().contains("waiting for the lock"), "the lock was given back: {}", next.tail());
    assert_eq!(next.end_by(Signal::TERM, SHORT).await.code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_without_the_deployment_ends_it_with_a_code() {
    let server = RedisServer::start().await;
    let ended = timer(&server.url(), 4).run(b"", SHORT).await;
    assert_eq!(ended.code, Some(69), "{}", ended.stderr);
    assert!(ended.stderr.contains("DQ-T002"), "{}", ended.stderr);
}
