//! The storm day, shortened: 930 flights against everything that `delayq up` starts, also killed on the way.

use std::path::{Path, PathBuf};
use std::time::Duration;

use delayq_tests::binary::{Binary, Finished};
use delayq_tests::deadline::{LONG, SHORT, wait_for, wait_until};
use delayq_tests::folder::Folder;
use delayq_tests::process::{Process, Signal};
use serde_json::Value;

const FLIGHTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/flights/departures-2013-02-08.csv");

/// The event log of the day.
async fn log(folder: &Folder) -> PathBuf {
    let finished = Binary::new("examples/storm_day").arg(FLIGHTS).run(b"", SHORT).await;
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert_eq!(finished.stdout.lines().count(), 930 + 239 + 472);
    let path = folder.join("storm-day.ndjson");
    std::fs::write(&path, finished.stdout).unwrap();
    path
}

fn replay(log: &Path, data: &Path, within: &str) -> Binary {
    let replay = Binary::new("delayq").arg("replay").arg(log).args(["--up", "--json", "--within", within]);
    replay.arg("--data").arg(data)
}

/// Checks the verdict, and the file itself once more.
fn check(finished: &Finished, data: &Path) -> Value {
    assert_eq!(finished.code, Some(0), "{}\n{}", finished.stdout, finished.stderr);
    let verdict: Value = serde_json::from_str(&finished.stdout).unwrap();
    for (name, count) in [("put", 930), ("rescheduled", 239), ("cancelled", 472), ("delivered", 458)] {
        assert_eq!(verdict[name], serde_json::json!({ "expected": count, "seen": count }), "{name}");
    }
    for name in ["missing", "unexpected", "misdated", "early"] {
        assert_eq!(verdict[name], 0, "{verdict}");
    }
    let file = std::fs::read_to_string(data.join("delivered.ndjson")).unwrap();
    let ids = file.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].to_string());
    assert_eq!(ids.collect::<std::collections::BTreeSet<_>>().len(), 458);
    verdict
}

/// The processes that belong to a data folder, by their command lines.
fn left_running(data: &Path) -> usize {
    let data = data.to_str().unwrap();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let command = |entry: std::fs::DirEntry| std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
    processes.map(command).filter(|line| String::from_utf8_lossy(line).contains(data)).count()
}

#[tokio::test]
async fn the_storm_day_is_delivered_exactly_as_its_log_says() {
    let folder = Folder::new("storm");
    let (log, data) = (log(&folder).await, folder.join("data"));
    let verdict = check(&replay(&log, &data, "15s").run(b"", LONG).await, &data);
    assert_eq!(verdict["duplicates"], 0, "{verdict}");
    assert_eq!(verdict["lives"], 1);
    wait_until("the servers' end", SHORT, || std::future::ready(left_running(&data) == 0)).await;
}

#[tokio::test]
async fn a_storm_day_that_is_killed_three_times_ends_exactly_as_its_log_says() {
    let folder = Folder::new("storm-killed");
    let (log, data) = (log(&folder).await, folder.join("data"));
    let mut seen = 0;
    for events in [100, 500, 1200] {
        let mut process: Process = replay(&log, &data, "15s").start();
        seen = wait_for("the replay to come so far", LONG, || {
            let ended = process.ended();
            assert!(ended.is_none(), "it ended before it was killed: {ended:?}\n{}", process.tail());
            std::future::ready(events_done(&data).filter(|&done| done >= events))
        })
        .await;
        process.end_by(Signal::KILL, SHORT).await;
    }
    assert!(seen >= 1200);
    let verdict = check(&replay(&log, &data, "15s").run(b"", LONG).await, &data);
    assert_eq!(verdict["lives"], 4);
    // Nothing twice beyond what was in flight: a batch of the forwarder at each kill.
    assert!(verdict["duplicates"].as_u64().unwrap() <= 3 * 256, "{verdict}");
}

fn events_done(data: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(data.join("replay.json")).ok()?;
    serde_json::from_str::<Value>(&text).ok()?["done"].as_u64()
}

#[tokio::test]
async fn up_keeps_everything_over_a_stop_and_over_a_kill() {
    let folder = Folder::new("up");
    let data = folder.join("data");
    let config = data.join("delayq.toml");
    let up = |no_etcd: bool| {
        let up = Binary::new("delayq").arg("up").arg("--data").arg(&data);
        if no_etcd { up.arg("--no-etcd") } else { up }
    };
    let delayq = |args: &[&str]| Binary::new("delayq").arg("--config").arg(&config).args(args);
    for (life, (no_etcd, signal)) in
        [(false, Signal::KILL), (true, Signal::TERM), (false, Signal::INT)].into_iter().enumerate()
    {
        let mut process = up(no_etcd).start();
        process.wait_for_line("delayq is up", LONG).await;
        let id = format!("life-{life}");
        let finished = delayq(&["put", "kept", "{}", "--id", &id, "--in", "1h"]).run(b"", SHORT).await;
        assert_eq!(finished.code, Some(0), "{finished:?}");
        let second = up(no_etcd).run(b"", SHORT).await;
        assert_eq!(second.code, Some(69), "{second:?}");
        assert!(second.stderr.contains("DQ-U009"), "{}", second.stderr);
        let finished = delayq(&["count", "kept", "--json"]).run(b"", SHORT).await;
        assert!(finished.stdout.contains(&format!("\"delayed\": {},", life + 1)), "{finished:?}");
        let finished = delayq(&["put", "now", "{}", "--in", "100ms"]).run(b"", SHORT).await;
        assert_eq!(finished.code, Some(0), "{finished:?}");
        let delivered = data.join("delivered.ndjson");
        wait_until("a delivery", Duration::from_secs(30), || {
            let text = std::fs::read_to_string(&delivered).unwrap_or_default();
            std::future::ready(text.lines().count() > life)
        })
        .await;
        let stream = redis::Client::open(format!("unix://{}", data.join("redis.sock").display())).unwrap();
        let stream = stream.get_multiplexed_async_connection().await.unwrap();
        wait_for("an entry in the stream", SHORT, || {
            let mut stream = stream.clone();
            async move {
                let entries: usize =
                    redis::cmd("XLEN").arg("delivered.ndjson").query_async(&mut stream).await.unwrap();
                (entries > life).then_some(())
            }
        })
        .await;
        let status = process.end_by(signal, SHORT).await;
        assert_eq!(status.success(), signal != Signal::KILL, "{}", process.tail());
        wait_until("the servers' end", SHORT, || std::future::ready(left_running(&data) == 0)).await;
    }
}

/// Three messages within a log minute: one goes out, one is moved, one is cancelled.
const SHORT_LOG: &str = r#"{"at":"2026-01-01T00:00:00Z","put":{"topic":"t","id":"out","due":"2026-01-01T00:00:50Z","payload":"one"}}
{"at":"2026-01-01T00:00:01Z","put":{"topic":"t","id":"moved","group":"g","due":"2026-01-01T00:00:40Z","payload":{}}}
{"at":"2026-01-01T00:00:02Z","put":{"topic":"t","id":"not","due":"2026-01-01T00:00:55Z","payload":3}}
{"at":"2026-01-01T00:00:20Z","reschedule":{"topic":"t","id":"moved","group":"g","due":"2026-01-01T00:01:00Z"}}
{"at":"2026-01-01T00:00:30Z","cancel":{"topic":"t","id":"not"}}
"#;

#[tokio::test]
async fn a_log_is_replayed_twice_against_a_deployment_that_runs() {
    let folder = Folder::new("replay");
    let (data, log) = (folder.join("data"), folder.join("log.ndjson"));
    std::fs::write(&log, SHORT_LOG).unwrap();
    let mut up = Binary::new("delayq").args(["up", "--no-etcd", "--data"]).arg(&data).start();
    up.wait_for_line("delayq is up", LONG).await;
    for _ in 0..2 {
        let replay =
            Binary::new("delayq").arg("--config").arg(data.join("delayq.toml")).arg("replay").arg(&log);
        let replay = replay.args(["--within", "3s", "--delivered"]).arg(data.join("delivered.ndjson"));
        let finished = replay.run(b"", LONG).await;
        assert_eq!(finished.code, Some(0), "{finished:?}");
        let delivered = finished.stdout.lines().find(|line| line.starts_with("delivered  ")).unwrap();
        assert_eq!(delivered.split_whitespace().collect::<Vec<_>>(), ["delivered", "2", "2"]);
        assert!(finished.stdout.contains("try next:"), "{}", finished.stdout);
    }
    assert!(up.end_by(Signal::INT, SHORT).await.success());
}

#[tokio::test]
async fn a_delivery_that_the_log_does_not_know_is_no_success() {
    let folder = Folder::new("replay");
    let (data, log) = (folder.join("data"), folder.join("log.ndjson"));
    std::fs::write(&log, SHORT_LOG).unwrap();
    let mut up = Binary::new("delayq").args(["up", "--no-etcd", "--data"]).arg(&data).start();
    up.wait_for_line("delayq is up", LONG).await;
    let delayq = || Binary::new("delayq").arg("--config").arg(data.join("delayq.toml"));
    let replay = delayq().arg("replay").arg(&log).args(["--within", "4s", "--json", "--delivered"]);
    let replaying = replay.arg(data.join("delivered.ndjson")).run(b"", LONG);
    let stranger = delayq().args(["put", "t", "{}", "--id", "stranger", "--in", "1s"]).run(b"", SHORT);
    let (finished, stranger) = tokio::join!(replaying, stranger);
    assert_eq!(stranger.code, Some(0), "{stranger:?}");
    assert_eq!(finished.code, Some(70), "{finished:?}");
    assert!(finished.stderr.contains("DQ-U007"), "{}", finished.stderr);
    let verdict: Value = serde_json::from_str(&finished.stdout).unwrap();
    assert_eq!((&verdict["exact"], &verdict["unexpected"]), (&false.into(), &1.into()), "{verdict}");
    assert!(up.end_by(Signal::INT, SHORT).await.success());
}

#[tokio::test]
async fn a_log_with_faults_is_refused_before_anything_starts() {
    let folder = Folder::new("replay");
    let (data, log) = (folder.join("data"), folder.join("log.ndjson"));
    let replay =
        |args: &[&str]| Binary::new("delayq").arg("replay").arg(&log).args(args).arg("--data").arg(&data);
    for (text, args, expected) in [
        ("", &["--up"][..], "the log has no events"),
        ("{}\n[1]\n", &["--up"], "line 2:"),
        (SHORT_LOG, &["--up", "--within", "0s"], "more than 0 is needed"),
        (SHORT_LOG, &["--up", "--speed", "NaN"], "more than 0 is needed"),
        (SHORT_LOG, &["--up", "--speed", "2", "--within", "1s"], "cannot be used with"),
        (SHORT_LOG, &[], "--delivered <FILE>"),
    ] {
        std::fs::write(&log, text).unwrap();
        let finished = replay(args).run(b"", SHORT).await;
        assert_eq!(finished.code, Some(64), "{args:?}: {finished:?}");
        assert!(finished.stderr.contains(expected), "{args:?}: {}", finished.stderr);
        assert!(!data.exists(), "{args:?}");
    }
}
