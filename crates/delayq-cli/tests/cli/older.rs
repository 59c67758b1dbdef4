//! Redis comes back with older data: the timer, `doctor` and `check` report the loss with its bound.

use super::agreement::agreed;
use super::{delayq, deployed, done, run};
use delayq_service::when::moment;
use delayq_tests::admin_endpoint::AdminEndpoint;
use delayq_tests::binary::Binary;
use delayq_tests::deadline::{LONG, wait_until};
use delayq_tests::folder::Folder;
use delayq_tests::process::Process;
use delayq_tests::redis_server::{RedisOptions, RedisServer};
use serde_json::Value;

async fn timer(redis: &RedisServer, folder: &Folder) -> (Process, AdminEndpoint) {
    let config = folder.join("timer.toml");
    let text = format!(
        "[deployment]\nshards = 4\n[redis]\nurl = '{}'\n[etcd]\nenabled = false\n[admin]\nlisten = '127.0.0.1:0'\n\
         [timer]\npoll_interval = '1s'\n",
        redis.url()
    );
    std::fs::write(&config, text).unwrap();
    let mut timer = Binary::new("delayq-timer").arg(&config).start();
    let endpoint = AdminEndpoint::of(&mut timer).await;
    (timer, endpoint)
}

/// The earliest mark of the shards; 0 if a shard has no mark.
async fn mark(redis: &RedisServer) -> u64 {
    let mut marks = Vec::new();
    for shard in 0..4 {
        let mark: Option<u64> = redis.command(&["HGET", &format!("{{dq:{shard}}}:meta"), "mark"]).await;
        marks.push(mark.unwrap_or(0));
    }
    marks.into_iter().min().unwrap()
}

async fn counted(endpoint: &AdminEndpoint) -> u64 {
    let (_, metrics) = endpoint.get("/metrics").await;
    let line = metrics.lines().find_map(|line| line.strip_prefix("delayq_timer_older_data_total "));
    line.unwrap().parse().unwrap()
}

async fn put(redis: &RedisServer, id: &str) {
    done(redis, &["put", "t", "{}", "--id", id, "--at", "2100-01-01T00:00:00Z"]).await;
}

#[tokio::test]
async fn older_data_is_said_by_log_metric_doctor_and_check_with_the_bound_of_what_is_lost() {
    let (mut redis, folder) = (deployed(RedisServer::private().await).await, Folder::new("older"));
    let (mut timer, endpoint) = timer(&redis, &folder).await;
    put(&redis, "kept").await;
    wait_until("the marks", LONG, async || mark(&redis).await > 0).await;
    let before = mark(&redis).await;
    redis.command::<()>(&["SAVE"]).await;
    let saved = before..=mark(&redis).await;
    put(&redis, "lost").await;
    wait_until("later marks", LONG, async || mark(&redis).await > saved.end() + 1000).await;
    assert_eq!(counted(&endpoint).await, 0);
    redis.kill_and_resume().await;
    wait_until("the metric", LONG, async || counted(&endpoint).await == 4).await;
    let line = timer.wait_for_line("Redis came back with older data", LONG).await;
    let logged: Value = serde_json::from_str(&line).unwrap();
    assert!(moment(logged["since"].as_str().unwrap()).unwrap().get() >= before, "{logged}");
    assert_eq!(run(&redis, &["get", "t", "kept"]).await.code, Some(0));
    assert_eq!(run(&redis, &["get", "t", "lost"]).await.code, Some(66));

    let both = async |command: &str| delayq(&redis).args([command, "--json"]).run(b"", LONG).await;
    let (doctor, check) = (both("doctor").await, both("check").await);
    assert!(agreed(&doctor, &check).contains(&("data".to_owned(), "CRITICAL")), "{doctor:?}");
    let said: Value = serde_json::from_str(&doctor.stdout).unwrap();
    let data = said.as_array().unwrap().iter().find(|check| check["what"] == "data").unwrap();
    let found = data["found"].as_str().unwrap();
    let words: Vec<&str> = found.split(' ').collect();
    assert!(found.starts_with("Redis came back with older data of shards 0-3: writes from "), "{found}");
    assert!(saved.contains(&moment(words[11]).unwrap().get()), "{found}");
    assert!(
        moment(words[13]).unwrap().get() > saved.end() + 1000 && found.ends_with("may be missing"),
        "{found}"
    );
    assert!(
        data["advice"].as_str().unwrap().contains("a message with its own id is not stored twice"),
        "{data}"
    );
    assert!(data["runbook"].as_str().unwrap().ends_with("runbooks.md#delayqolderdata"), "{data}");
}

#[tokio::test]
async fn a_restart_that_loses_nothing_is_not_taken_for_older_data() {
    let redis = RedisServer::start_with(RedisOptions::default().append_only("always")).await;
    let (mut redis, folder) = (deployed(redis).await, Folder::new("older"));
    let (_timer, endpoint) = timer(&redis, &folder).await;
    put(&redis, "kept").await;
    wait_until("the marks", LONG, async || mark(&redis).await > 0).await;
    redis.kill_and_resume().await;
    let before = mark(&redis).await;
    wait_until("later marks", LONG, async || mark(&redis).await > before + 1000).await;
    assert_eq!(counted(&endpoint).await, 0);
    let said = run(&redis, &["doctor", "--json"]).await.stdout;
    assert!(!said.contains("\"data\""), "{said}");
}
