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
        let finished = delayq(&["put", "stream/now", "{}"]).run(b"", SHORT).await;
        assert_eq!(finished.code, Some(0), "{finished:?}");
        let ports = std::fs::read_to_string(data.join("ports.json")).unwrap();
        let port = serde_json::from_str::<Value>(&ports).unwrap()["redis"].as_u64().unwrap();
        let stream = redis::Client::open(format!("redis://127.0.0.1:{port}")).unwrap();
        let stream = stream.get_multiplexed_async_connection().await.unwrap();
        wait_for("an entry in the stream", SHORT, || {
            let mut stream = stream.clone();
            async move {
                let entries: usize =
                    redis::cmd("XLEN").arg("stream/now").query_async(&mut stream).await.unwrap();
                (entries > life).then_some(())
            }
        })
        .await;
        let status = process.end_by(signal, SHORT).await;
        assert_eq!(status.success(), signal != Signal::KILL, "{}", process.tail());
        wait_until("the servers' end", SHORT, || std::future::ready(left_running(&data) == 0)).await;
    }
}
