//! The sink `stdout` in use: the process `delayq-forwarder`, and the reader of its output.

use crate::stage::{Seen, Stage, record};
use delayq_tests::deadline::{LONG, wait_until};
use delayq_tests::invariants::Permit;
use delayq_tests::process::{Process, Signal, Stream};
use std::process::Command;

const PROGRAM: &str = env!("CARGO_BIN_EXE_delayq-forwarder");

fn configuration(stage: &Stage) -> String {
    format!(
        "[deployment]\nnamespace = \"{}\"\nshards = {}\n[redis]\nurl = \"{}\"\n[admin]\nlisten = \"\"\n\
         [forwarder]\npoll_interval = \"200ms\"\n[sinks.out.stdout]\n[[routes]]\ntopic = \"t\"\nsink = \"out\"\n",
        stage.namespace,
        stage.client.shards().get(),
        stage.redis.url.expose(),
    )
}

fn seen(process: &Process) -> Vec<Seen> {
    process.text(Stream::Out).lines().map(|line| record("-", line)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_message_is_one_line_and_a_stop_flushes_them_all() {
    let (stage, folder) = (Stage::new().await, tempfile::tempdir().unwrap());
    let file = folder.path().join("delayq.toml");
    std::fs::write(&file, configuration(&stage)).unwrap();
    stage.put("t", 0, 2000, 100).await;
    stage.put_bodies("t", vec![("bytes".into(), (0..=255).collect()), ("empty".into(), Vec::new())]).await;
    let mut all = Vec::new();
    for stop_early in [true, false] {
        let mut command = Command::new(PROGRAM);
        command.arg(&file);
        let mut process = Process::spawn("delayq-forwarder", command);
        // The second run may find nothing left to do: SIGTERM must wait until the process handles signals.
        process.wait_for_line("started", LONG).await;
        if stop_early {
            wait_until("the first lines", LONG, || async { stage.numbers("t").await.delivered > 0 }).await;
        } else {
            stage.drained("t").await;
        }
        let ended = process.end_by(Signal::TERM, LONG).await;
        assert_eq!(ended.code(), Some(0), "{}", process.tail());
        assert_eq!(stage.numbers("t").await.leased, 0, "a lease was left to run out");
        all.extend(seen(&process));
    }
    assert_eq!(all.len(), 2002);
    stage.check("t", all, &Permit::default()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_ends_leaves_the_rest_waiting_in_redis() {
    let (stage, folder) = (Stage::new().await, tempfile::tempdir().unwrap());
    let file = folder.path().join("delayq.toml");
    std::fs::write(&file, configuration(&stage)).unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", "\"$1\" \"$2\" | head -n 3", "sh", PROGRAM]).arg(&file);
    let mut process = Process::spawn("delayq-forwarder into head", command);
    stage.put("t", 0, 3, 100).await;
    wait_until("three lines", LONG, || async {
        process.lines().iter().filter(|line| line.stream == Stream::Out).count() == 3
    })
    .await;
    stage.put("t", 3, 500, 100).await;
    process.wait_for_line("the destination does not accept messages", LONG).await;
    let numbers = stage.numbers("t").await;
    assert!(numbers.pending() > 0 && numbers.dead == 0, "{numbers:?}");
    process.signal_all(Signal::TERM);
    process.wait_end(LONG).await;
    let numbers = stage.numbers("t").await;
    assert!(numbers.pending() > 0 && numbers.dead == 0 && numbers.balances(), "{numbers:?}");
}
