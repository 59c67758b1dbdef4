//! The start of the process, by its exit code.

use delayq_tests::deadline::{LONG, within};
use delayq_tests::folder::Folder;
use delayq_tests::ports::free_port;
use delayq_tests::redis_server::{RedisOptions, RedisServer};
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

fn start(redis: &str, spool: &Folder) -> Child {
    Command::new(env!("CARGO_BIN_EXE_delayq-compensator"))
        .env_clear()
        .env("DELAYQ__REDIS__URL", redis)
        .env("DELAYQ__SPOOL__DIR", spool.path())
        .env("DELAYQ__ADMIN__LISTEN", "")
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

#[tokio::test]
async fn a_redis_that_evicts_is_refused_with_69() {
    let redis = RedisServer::start_with(RedisOptions::default().set("maxmemory-policy", "allkeys-lru")).await;
    let spool = Folder::new("spool");
    let ended = within("the end", LONG, start(&redis.url(), &spool).wait_with_output()).await.unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(69), "{said}");
    assert!(said.contains("DQ-R005") && said.contains("allkeys-lru"), "{said}");
}

#[tokio::test]
async fn a_redis_that_is_away_is_waited_for() {
    let spool = Folder::new("spool");
    let mut process = start(&format!("redis://127.0.0.1:{}", free_port()), &spool);
    let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
    let started = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            if line.contains("\"started\"") {
                return true;
            }
        }
        false
    };
    assert!(within("the start", LONG, started).await, "it ended");
}
