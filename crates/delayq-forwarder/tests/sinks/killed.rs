//! The process `delayq-forwarder`, killed in the middle of its work (SIGKILL).

use crate::stage::{Stage, record, topic};
use delayq::Admin;
use delayq::admin::Policy;
use delayq_tests::deadline::{LONG, wait_until};
use delayq_tests::invariants::Permit;
use delayq_tests::process::{Process, Signal};
use std::path::Path;
use std::process::Command;

const PROGRAM: &str = env!("CARGO_BIN_EXE_delayq-forwarder");
const IN_FLIGHT: usize = 100;

fn configuration(stage: &Stage, folder: &Path) -> String {
    format!(
        "[deployment]\nnamespace = \"{}\"\nshards = {}\n[redis]\nurl = \"{}\"\n[admin]\nlisten = \"\"\n\
         [forwarder]\npoll_interval = \"200ms\"\nlease = \"1s\"\n[sinks.out]\nin_flight = {IN_FLIGHT}\nbatch = 10\n\
         [sinks.out.file]\ndir = \"{}\"\n[[routes]]\ntopic = \"t\"\nsink = \"out\"\nto = \"t\"\n",
        stage.namespace,
        stage.client.shards().get(),
        stage.redis.url.expose(),
        folder.display(),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forwarder_that_is_killed_loses_nothing_and_repeats_at_most_what_it_held() {
    const KILLS: usize = 3;
    let (stage, folder) = (Stage::new().await, tempfile::tempdir().unwrap());
    let file = folder.path().join("delayq.toml");
    std::fs::write(&file, configuration(&stage, folder.path())).unwrap();
    let policy = Policy { backoff: None, ..Policy::default() };
    Admin::new(stage.client.clone()).topic(&topic("t")).set_policy(&policy).await.unwrap();
    stage.put("t", 0, 3000, 100).await;
    let start = || {
        let mut command = Command::new(PROGRAM);
        command.arg(&file);
        Process::spawn("delayq-forwarder", command)
    };
    for _ in 0..KILLS {
        let before = stage.numbers("t").await.delivered;
        let mut process = start();
        wait_until("some deliveries", LONG, || async { stage.numbers("t").await.delivered > before + 50 })
            .await;
        let ended = process.end_by(Signal::KILL, LONG).await;
        assert_eq!(ended.code(), None, "it ended by itself: {}", process.tail());
    }
    let mut process = start();
    stage.drained("t").await;
    let ended = process.end_by(Signal::TERM, LONG).await;
    assert_eq!(ended.code(), Some(0), "{}", process.tail());
    let text = std::fs::read_to_string(folder.path().join("t")).unwrap();
    let seen = text.lines().map(|line| record("t", line)).collect();
    let permit = Permit { duplicates: KILLS * IN_FLIGHT, ..Permit::default() };
    stage.check("t", seen, &permit).await;
}
