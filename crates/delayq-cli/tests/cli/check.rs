//! `delayq check`: the exit code and the output that monitoring systems read.

use super::printed::assert_is_documented;
use super::{delayq, deployed, deployment, done, run};
use delayq_tests::binary::Binary;
use delayq_tests::deadline::{LONG, SHORT, wait_until};
use delayq_tests::folder::Folder;
use delayq_tests::process::{Process, Signal};
use delayq_tests::redis_server::{RedisServer, SharedRedis};
use serde_json::Value;

fn timer(redis: &SharedRedis, folder: &Folder) -> Process {
    let file = folder.join("timer.toml");
    let url = redis.url();
    let text = format!(
        "[deployment]\nshards = 4\n[redis]\nurl = '{url}'\n[etcd]\nenabled = false\n[admin]\nlisten = ''\n"
    );
    std::fs::write(&file, text).unwrap();
    Binary::new("delayq-timer").arg(file).start()
}

async fn check(redis: &SharedRedis, args: &[&str]) -> (Option<i32>, String) {
    let finished = run(redis, &[&["check"], args].concat()).await;
    assert_eq!(finished.stderr, "", "{args:?}");
    (finished.code, finished.stdout)
}

#[tokio::test]
async fn each_status_has_its_exit_code_and_its_line() {
    let (redis, folder) = (deployed(RedisServer::private().await).await, Folder::new("check"));
    let (code, line) = check(&redis, &[]).await;
    assert_eq!(
        (code, line.starts_with("CRITICAL - timers: no timer has ever owned 4 of 4 shards")),
        (Some(2), true)
    );

    let mut timer = timer(&redis, &folder);
    wait_until("all is well", LONG, async || check(&redis, &[]).await.0 == Some(0)).await;
    for n in 0..3 {
        done(&redis, &["put", "orders", "{}", "--id", &n.to_string()]).await;
    }
    done(&redis, &["put", "orders", "{}", "--in", "1h"]).await;
    let (code, line) = check(&redis, &[]).await;
    assert!(code == Some(0) && line.starts_with("OK - version 7"), "{line}");
    assert_eq!(line.lines().count(), 1, "{line}");
    let data = line.split_once(" | ").unwrap().1;
    assert_eq!(
        data.trim().splitn(3, ' ').nth(2).unwrap(),
        "ready=3;;;0 dead=0;;;0 pending=4;;;0 shards=4 held=0",
        "{line}"
    );
    for (args, code, beginning) in [
        (&["--warn-ready", "3"][..], 1, "WARNING - ready messages: 3 ready messages in orders | overdue="),
        (&["--warn-ready", "4"], 0, "OK - "),
        (
            &["--warn-ready", "1", "--crit-ready", "3"],
            2,
            "CRITICAL - ready messages: 3 ready messages in orders | ",
        ),
        (&["--crit-ready", "3", "--topic", "orders"], 2, "CRITICAL - "),
        (&["--crit-dead", "1"], 0, "OK - "),
        (
            &["--warn-ready-age", "1ms"],
            1,
            "WARNING - ready age: the oldest ready message of orders has waited for ",
        ),
        (
            &["--warn-ready-age", "1ms", "--crit-ready-age", "1ms"],
            2,
            "CRITICAL - ready age: the oldest ready message of orders",
        ),
        (&["--warn-ready-age", "0s", "--crit-ready-age", "0s"], 0, "OK - "),
        (&["--crit-ready-age", "1ms"], 2, "CRITICAL - ready age: the oldest ready message of orders"),
        (&["--warn-ready-age", "2h"], 0, "OK - "),
        (&["--crit-ready-age", "0s"], 0, "OK - "),
        (&["--topic", "ordres"], 3, "UNKNOWN - DQ-U012: no topic ordres; did you mean orders?"),
    ] {
        let found = check(&redis, args).await;
        assert!(found.0 == Some(code) && found.1.starts_with(beginning), "{args:?}: {found:?}");
    }
    redis.freeze();
    let (code, line) = check(&redis, &["--deadline", "50ms"]).await;
    redis.thaw();
    assert!(code == Some(3) && line.starts_with("UNKNOWN - no answer within"), "{line}");
    timer.end_by(Signal::KILL, SHORT).await;
    wait_until("nobody listens", LONG, async || {
        let (code, line) = check(&redis, &[]).await;
        code == Some(2) && line.starts_with("CRITICAL - timers: no timer listens to 4 of 4 shards")
    })
    .await;
    done(&redis, &["put", "orders", "{}", "--in", "1ms"]).await;
    wait_until("it is overdue", LONG, async || {
        let (_, line) = check(&redis, &["--warn-overdue", "1ms"]).await;
        line.contains("a shard has been due for ")
    })
    .await;
}

#[tokio::test]
async fn a_redis_that_is_down_is_critical_and_what_cannot_be_asked_is_unknown() {
    let away = Binary::new("delayq").args(["check", "--redis", "redis://127.0.0.1:1/"]);
    let finished = away.env("DELAYQ__ETCD__ENABLED", "false").run(b"", SHORT).await;
    assert!(finished.code == Some(2) && finished.stdout.starts_with("CRITICAL - "), "{finished:?}");
    let folder = Folder::new("check");
    let file = folder.join("delayq.toml");
    std::fs::write(&file, "[deployment]\nshards = 'many'\n").unwrap();
    let invalid = Binary::new("delayq").args(["check", "--config"]).arg(&file).run(b"", SHORT).await;
    assert!(invalid.code == Some(3) && invalid.stdout.starts_with("UNKNOWN - DQ-C001"), "{invalid:?}");
    let redis = RedisServer::start().await;
    let empty = delayq(&redis).arg("check").run(b"", SHORT).await;
    assert!(empty.code == Some(2) && empty.stdout.contains("does not exist"), "{empty:?}");
    let above =
        delayq(&redis).args(["check", "--warn-ready", "5", "--crit-ready", "4"]).run(b"", SHORT).await;
    assert_eq!(above.code, Some(64), "{above:?}");
}

#[tokio::test]
async fn prometheus_people_and_programs_read_the_same() {
    let redis = deployment().await;
    done(&redis, &["put", "orders/eu", "{}", "--in", "1h"]).await;
    done(&redis, &["put", "nobody", "{}"]).await;
    let (code, text) = check(&redis, &["--format", "prometheus"]).await;
    assert_eq!(code, Some(2));
    for line in [
        "# TYPE delayq_check_status gauge",
        "delayq_check_status 2",
        "delayq_check_verdict{what=\"timers\"} 2",
        "delayq_check_verdict{what=\"redis\"} 0",
        "delayq_check_shards 4",
        "delayq_check_shards_never_owned 4",
        "delayq_check_messages{topic=\"orders/eu\",state=\"delayed\"} 1",
        "# TYPE delayq_check_oldest_ready_seconds gauge",
        "# TYPE delayq_check_oldest_unhandled_seconds gauge",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
    let (_, table) = check(&redis, &["--format", "human"]).await;
    assert!(table.starts_with("CHECK") && table.contains("CRITICAL  no timer has ever owned"), "{table}");
    let (code, json) = check(&redis, &["--json"]).await;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_is_documented(&json, &["check"]);
    assert_eq!((code, &json["status"]), (Some(2), &Value::from("CRITICAL")));
}
