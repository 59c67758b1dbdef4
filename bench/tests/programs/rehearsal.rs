//! Rehearsals: the storm day, shortened, 930 flights against `delayq up`, also killed midway; and small logs.

use delayq_tests::binary::{Binary, Finished};
use delayq_tests::deadline::{LONG, SHORT, wait_for, wait_until};
use delayq_tests::folder::Folder;
use delayq_tests::process::{Process, Signal};
use delayq_tests::timing::{Timing, conclusive};
use serde_json::Value;
use std::path::{Path, PathBuf};

const FLIGHTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/flights/departures-2013-02-08.csv");

async fn log(folder: &Folder) -> PathBuf {
    let finished = Binary::new("storm-day").arg(FLIGHTS).run(b"", SHORT).await;
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert_eq!(finished.stdout.lines().count(), 930 + 239 + 472);
    let path = folder.join("storm-day.ndjson");
    std::fs::write(&path, finished.stdout).unwrap();
    path
}

fn rehearse(log: &Path, data: &Path) -> Binary {
    let rehearse = Binary::new("delayq-rehearse").arg(log).args(["--up", "--json", "--within", "15s"]);
    rehearse.arg("--data").arg(data)
}

/// Checks the verdict, and the file itself again; an `Err` means that this machine was too busy.
fn check(finished: &Finished, data: &Path) -> Result<Value, Timing> {
    let verdict: Value = serde_json::from_str(&finished.stdout).unwrap();
    if verdict["result"] == "inconclusive" {
        assert!(finished.stderr.contains("DQ-B003"), "{}", finished.stderr);
        return Err(Timing::Inconclusive(verdict["examples"].to_string()));
    }
    assert_eq!(finished.code, Some(0), "{}\n{}", finished.stdout, finished.stderr);
    for (name, count) in [("put", 930), ("rescheduled", 239), ("cancelled", 472), ("delivered", 458)] {
        assert_eq!(verdict[name], serde_json::json!({ "expected": count, "seen": count }), "{name}");
    }
    for name in ["missing", "unexpected", "misdated", "early"] {
        assert_eq!(verdict[name], 0, "{verdict}");
    }
    let file = std::fs::read_to_string(data.join("forwarded/delivered.ndjson")).unwrap();
    let ids = file.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].to_string());
    assert_eq!(ids.collect::<std::collections::BTreeSet<_>>().len(), 458);
    Ok(verdict)
}

fn left_running(data: &Path) -> usize {
    let data = data.to_str().unwrap();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let command = |entry: std::fs::DirEntry| std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
    processes.map(command).filter(|line| String::from_utf8_lossy(line).contains(data)).count()
}

#[tokio::test]
async fn the_storm_day_is_delivered_exactly_as_its_log_says() {
    conclusive(async || {
        let folder = Folder::new("storm");
        let (log, data) = (log(&folder).await, folder.join("data"));
        let verdict = match check(&rehearse(&log, &data).run(b"", LONG).await, &data) {
            Ok(verdict) => verdict,
            Err(timing) => return timing,
        };
        assert_eq!(verdict["duplicates"], 0, "{verdict}");
        assert_eq!(verdict["lives"], 1);
        wait_until("the servers' end", SHORT, || std::future::ready(left_running(&data) == 0)).await;
        Timing::Kept
    })
    .await;
}

#[tokio::test]
async fn a_storm_day_that_is_killed_three_times_ends_exactly_as_its_log_says() {
    conclusive(async || {
        let folder = Folder::new("storm-killed");
        let (log, data) = (log(&folder).await, folder.join("data"));
        for events in [100, 500, 1200] {
            let mut process: Process = rehearse(&log, &data).start();
            wait_for("the rehearsal to come so far", LONG, || {
                let ended = process.ended();
                assert!(ended.is_none(), "it ended before it was killed: {ended:?}\n{}", process.tail());
                std::future::ready(events_done(&data).filter(|&done| done >= events))
            })
            .await;
            process.end_by(Signal::KILL, SHORT).await;
        }
        let verdict = match check(&rehearse(&log, &data).run(b"", LONG).await, &data) {
            Ok(verdict) => verdict,
            Err(timing) => return timing,
        };
        assert_eq!(verdict["lives"], 4);
        // Repeats are limited to deliveries in flight: a batch of the forwarder per kill.
        assert!(verdict["duplicates"].as_u64().unwrap() <= 3 * 256, "{verdict}");
        Timing::Kept
    })
    .await;
}

fn events_done(data: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(data.join("rehearsal.json")).ok()?;
    serde_json::from_str::<Value>(&text).ok()?["done"].as_u64()
}

/// Three messages within a log minute: the first is delivered, the second rescheduled, the third cancelled.
const SHORT_LOG: &str = r#"{"at":"2026-01-01T00:00:00Z","put":{"topic":"t","id":"out","due":"2026-01-01T00:00:50Z","payload":"one"}}
{"at":"2026-01-01T00:00:01Z","put":{"topic":"t","id":"moved","group":"g","due":"2026-01-01T00:00:40Z","payload":{}}}
{"at":"2026-01-01T00:00:02Z","put":{"topic":"t","id":"not","due":"2026-01-01T00:00:55Z","payload":3}}
{"at":"2026-01-01T00:00:20Z","reschedule":{"topic":"t","id":"moved","group":"g","due":"2026-01-01T00:01:00Z"}}
{"at":"2026-01-01T00:00:30Z","cancel":{"topic":"t","id":"not"}}
"#;

async fn forwarding(data: &Path) -> Process {
    let up = Binary::new("delayq").args(["up", "--no-etcd", "--forward", "t=file", "--data"]).arg(data);
    let mut up = up.start();
    up.wait_for_line("delayq is up", LONG).await;
    up
}

#[tokio::test]
async fn a_log_is_rehearsed_twice_against_a_deployment_that_runs() {
    let folder = Folder::new("rehearsal");
    let (data, log) = (folder.join("data"), folder.join("log.ndjson"));
    std::fs::write(&log, SHORT_LOG).unwrap();
    let mut up = forwarding(&data).await;
    for _ in 0..2 {
        let rehearse = Binary::new("delayq-rehearse").arg("--config").arg(data.join("delayq.toml")).arg(&log);
        let rehearse =
            rehearse.args(["--within", "3s", "--delivered"]).arg(data.join("forwarded/delivered.ndjson"));
        let finished = rehearse.run(b"", LONG).await;
        assert_eq!(finished.code, Some(0), "{finished:?}");
        let delivered = finished.stdout.lines().find(|line| line.starts_with("delivered  ")).unwrap();
        assert_eq!(delivered.split_whitespace().collect::<Vec<_>>(), ["delivered", "2", "2"]);
        assert!(finished.stdout.contains("try next:"), "{}", finished.stdout);
    }
    up.ends_well_by(Signal::INT, SHORT).await;
}

#[tokio::test]
async fn a_delivery_that_the_log_does_not_know_is_no_success() {
    let folder = Folder::new("rehearsal");
    let (data, log) = (folder.join("data"), folder.join("log.ndjson"));
    std::fs::write(&log, SHORT_LOG).unwrap();
    let mut up = forwarding(&data).await;
    let config = data.join("delayq.toml");
    let rehearse = Binary::new("delayq-rehearse").arg("--config").arg(&config).arg(&log);
    let rehearse = rehearse.args(["--within", "4s", "--json", "--delivered"]);
    let rehearsing = rehearse.arg(data.join("forwarded/delivered.ndjson")).run(b"", LONG);
    let delayq = async |args: &[&str]| {
        Binary::new("delayq").arg("--config").arg(&config).args(args).run(b"", LONG).await
    };
    let stranger = async {
        // Deliveries before the start of a rehearsal do not count.
        wait_until("the rehearsal to put", LONG, async || {
            delayq(&["list", "t"]).await.stdout.contains("out")
        })
        .await;
        delayq(&["put", "t", "{}", "--id", "stranger", "--in", "100ms"]).await
    };
    let (finished, stranger) = tokio::join!(rehearsing, stranger);
    assert_eq!(stranger.code, Some(0), "{stranger:?}");
    assert_eq!(finished.code, Some(70), "{finished:?}");
    assert!(finished.stderr.contains("DQ-B002"), "{}", finished.stderr);
    let verdict: Value = serde_json::from_str(&finished.stdout).unwrap();
    assert_eq!((&verdict["result"], &verdict["unexpected"]), (&"wrong".into(), &1.into()), "{verdict}");
    up.ends_well_by(Signal::INT, SHORT).await;
}

#[tokio::test]
async fn a_log_with_faults_is_refused_before_anything_starts() {
    let folder = Folder::new("rehearsal");
    let (data, log) = (folder.join("data"), folder.join("log.ndjson"));
    let rehearse =
        |args: &[&str]| Binary::new("delayq-rehearse").arg(&log).args(args).arg("--data").arg(&data);
    for (text, args, expected) in [
        ("", &["--up"][..], "the log has no events"),
        ("{}\n[1]\n", &["--up"], "line 2:"),
        (SHORT_LOG, &["--up", "--within", "0s"], "must be more than 0"),
        (SHORT_LOG, &["--up", "--speed", "NaN"], "must be more than 0"),
        (SHORT_LOG, &["--up", "--speed", "2", "--within", "1s"], "cannot be used with"),
        (SHORT_LOG, &[], "--delivered <FILE>"),
    ] {
        std::fs::write(&log, text).unwrap();
        let finished = rehearse(args).run(b"", SHORT).await;
        assert_eq!(finished.code, Some(64), "{args:?}: {finished:?}");
        assert!(finished.stderr.contains(expected), "{args:?}: {}", finished.stderr);
        assert!(!data.exists(), "{args:?}");
    }
}
