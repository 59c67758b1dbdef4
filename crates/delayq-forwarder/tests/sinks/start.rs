//! The process's own checks at start, by exit code.

use delayq_tests::ports::free_port;
use delayq_tests::redis_server::{RedisOptions, RedisServer};
use std::process::{Command, Output};

fn start(redis: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_delayq-forwarder"));
    command.env_clear().env("DELAYQ__REDIS__URL", redis).env("DELAYQ__ADMIN__LISTEN", "").output().unwrap()
}

#[tokio::test]
async fn a_redis_that_evicts_or_is_away_is_refused_with_69() {
    let evicting = RedisOptions::default().set("maxmemory-policy", "allkeys-lru");
    let evicting = RedisServer::private_with(evicting).await;
    let away = format!("redis://127.0.0.1:{}", free_port());
    for (redis, code, named) in
        [(evicting.url(), "DQ-R005", "allkeys-lru"), (away, "DQ-R001", "cannot reach Redis")]
    {
        let ended = start(&redis);
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(69), "{said}");
        assert!(said.contains(code) && said.contains(named), "{said}");
    }
}
