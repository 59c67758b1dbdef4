//! `delayq up` keeps everything over a stop and over a kill.

use super::lines;
use crate::printed::assert_is_documented;
use delayq_tests::binary::Binary;
use delayq_tests::deadline::{LONG, SHORT, wait_until};
use delayq_tests::folder::Folder;
use delayq_tests::process::Signal;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

fn left_running(data: &Path) -> usize {
    let data = data.to_str().unwrap();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let command = |entry: std::fs::DirEntry| std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
    processes.map(command).filter(|line| String::from_utf8_lossy(line).contains(data)).count()
}

fn entries(socket: &Path, stream: &str) -> usize {
    let xlen = Command::new("redis-cli").arg("-s").arg(socket).args(["XLEN", stream]).output().unwrap();
    String::from_utf8_lossy(&xlen.stdout).trim().parse().unwrap()
}

#[tokio::test]
async fn up_keeps_everything_over_a_stop_and_over_a_kill() {
    let folder = Folder::new("up");
    let data = folder.join("data");
    let config = data.join("delayq.toml");
    let up = |no_etcd: bool| {
        let up = Binary::new("delayq").args([
            "up",
            "--forward",
            "now=file",
            "--forward",
            "streamed=stream",
            "--data",
        ]);
        let up = up.arg(&data);
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
        let timers = ["timers", "--json"];
        let fleet = delayq(&timers).run(b"", SHORT).await;
        assert_is_documented(&serde_json::from_str(&fleet.stdout).unwrap(), &timers);
        let second = up(no_etcd).run(b"", SHORT).await;
        assert_eq!(second.code, Some(69), "{second:?}");
        assert!(second.stderr.contains("DQ-U009"), "{}", second.stderr);
        let finished = delayq(&["count", "kept", "--json"]).run(b"", SHORT).await;
        assert!(finished.stdout.contains(&format!("\"delayed\": {},", life + 1)), "{finished:?}");
        for topic in ["now", "streamed"] {
            let finished = delayq(&["put", topic, "{}", "--in", "100ms"]).run(b"", SHORT).await;
            assert_eq!(finished.code, Some(0), "{finished:?}");
        }
        let delivered = data.join("forwarded/delivered.ndjson");
        wait_until("a delivery", Duration::from_secs(30), async || lines(&delivered) > life).await;
        let socket = data.join("redis.sock");
        wait_until("an entry in the stream", SHORT, async || entries(&socket, "delivered") > life).await;
        let status = process.end_by(signal, SHORT).await;
        assert_eq!(status.success(), signal != Signal::KILL, "{}", process.tail());
        wait_until("the servers' end", SHORT, || std::future::ready(left_running(&data) == 0)).await;
    }
}
