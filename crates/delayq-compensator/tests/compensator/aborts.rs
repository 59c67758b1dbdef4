//! The process `delayq-compensator` ends at one of its steps: in front of a sync of the spool, which is between any two steps.

use super::writes::{known_by_ids, writes};
use super::{Host, drain, reader};
use delayq_compensator::Resubmitter;
use delayq_spool::{SpoolSettings, SpoolWriter};
use delayq_tests::deadline::LONG;
use delayq_tests::disk_shim::{DiskShim, Syncs};
use delayq_tests::process::Process;
use std::process::Command;

const PROGRAM: &str = env!("CARGO_BIN_EXE_delayq-compensator");
const WRITES: u64 = 60;
const IDS: u64 = 6;

/// A compensator of a folder on a disk, in steps of seven records.
fn start(host: &Host, disk: &DiskShim, syncs: Syncs) -> Process {
    let config = host.folder.join("delayq.toml");
    let text = format!(
        "[redis]\nurl = \"{}\"\n[admin]\nlisten = \"\"\n[spool]\ndir = \"{}\"\n[compensator]\nbatch = 7\n",
        host.deployment.server.url(),
        disk.path().display(),
    );
    std::fs::write(&config, text).unwrap();
    let mut command = Command::new(PROGRAM);
    command.arg(&config);
    disk.apply(&mut command, syncs);
    Process::spawn("delayq-compensator", command)
}

#[tokio::test]
async fn a_compensator_that_ends_between_any_two_steps_changes_nothing_of_the_result() {
    let calm = Host::start().await;
    for write in writes(WRITES, IDS) {
        write.carry_out(&calm.producer).await;
    }
    let expected = known_by_ids(&calm, IDS).await;
    // Of each step: in front of the commit of what is begun, and of what is done.
    for number in 1..=12 {
        let host = Host::start().await;
        let disk = DiskShim::new();
        let spool = SpoolWriter::open(disk.path(), &SpoolSettings::default()).unwrap();
        spool.append(writes(WRITES, IDS).map(|write| write.record()).collect()).await.unwrap();
        let mut process = start(&host, &disk, Syncs::End(number));
        let ended = process.wait_end(LONG).await;
        assert_eq!(ended.code(), None, "sync {number}: it ended by itself: {}", process.tail());
        let mut resubmitter = Resubmitter::new(reader(disk.path()), host.deployment.client.clone(), 500);
        let left = resubmitter.stats().await.unwrap();
        assert!(left.waiting > 0 && left.balances(), "sync {number}: {left:?}");
        drain(&mut resubmitter).await;
        assert_eq!(known_by_ids(&host, IDS).await, expected, "sync {number}");
        let stats = resubmitter.stats().await.unwrap();
        assert!(stats.waiting == 0 && stats.balances(), "sync {number}: {stats:?}");
    }
}
