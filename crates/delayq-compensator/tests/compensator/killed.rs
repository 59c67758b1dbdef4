//! The process `delayq-compensator`, killed in the middle of its work (SIGKILL).

use super::{Host, message, topic};
use delayq::protocol::ShardId;
use delayq::spool::SpoolRecord;
use delayq::{Admin, Fate, MessageId, UnixMillis};
use delayq_spool::SpoolReader;
use delayq_tests::deadline::{LONG, wait_until};
use delayq_tests::process::{Process, Signal};
use std::process::Command;

const PROGRAM: &str = env!("CARGO_BIN_EXE_delayq-compensator");
/// Of ten steps.
const COUNT: u64 = 20_000;

#[tokio::test]
async fn a_compensator_that_is_killed_loses_nothing_and_puts_nothing_twice() {
    let host = Host::start().await;
    let now_ms = host.deployment.now().await.get();
    let records: Vec<SpoolRecord> = (0..COUNT)
        .map(|n| match n % 2 {
            0 => message(&format!("m{n}")),
            _ => message("m").with_id(MessageId::generate(ShardId::new((n % 4) as u16), now_ms)),
        })
        .map(|message| SpoolRecord::put(&message, Fate::NotApplied, UnixMillis::new(1)))
        .collect();
    for some in records.chunks(500) {
        host.spool.append(some.to_vec()).await.unwrap();
    }
    let config = host.folder.join("delayq.toml");
    let text = format!(
        "{}[admin]\nlisten = \"\"\n[spool]\ndir = \"{}\"\n",
        host.deployment.sections(),
        host.folder.path().display(),
    );
    std::fs::write(&config, text).unwrap();
    let start = || {
        let mut command = Command::new(PROGRAM);
        command.arg(&config);
        Process::spawn("delayq-compensator", command)
    };
    let admin = Admin::new(host.deployment.client.clone());
    let stored = async || admin.topic(&topic()).count().await.unwrap().delayed;
    for _ in 0..3 {
        let (before, mut process) = (stored().await, start());
        wait_until("some of them", LONG, async || stored().await > before + 50).await;
        let ended = process.end_by(Signal::KILL, LONG).await;
        assert_eq!(ended.code(), None, "it ended by itself: {}", process.tail());
    }
    let mut process = start();
    wait_until("all of them", LONG, async || stored().await == COUNT).await;
    wait_until("an empty spool", LONG, async || {
        SpoolReader::open_beside(host.folder.path()).unwrap().stats().unwrap().waiting == 0
    })
    .await;
    let ended = process.end_by(Signal::TERM, LONG).await;
    assert_eq!(ended.code(), Some(0), "{}", process.tail());
    let numbers = admin.topic(&topic()).count().await.unwrap();
    assert_eq!((numbers.accepted, numbers.delayed), (COUNT, COUNT));
    let stats = SpoolReader::open_beside(host.folder.path()).unwrap().stats().unwrap();
    assert!(stats.rejected == 0 && stats.balances(), "{stats:?}");
}
