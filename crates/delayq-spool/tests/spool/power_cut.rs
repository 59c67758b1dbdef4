//! The spool on a disk whose power is cut: every acknowledged record survives.

use delayq_spool::{SpoolReader, Spooled};
use delayq_tests::deadline::SHORT;
use delayq_tests::disk_shim::{DiskShim, Syncs};
use delayq_tests::process::{Process, Signal, Stream};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Small, so that the log is merged into the database often.
const MAX_BYTES: &str = "4194304";

struct After {
    there: BTreeSet<u64>,
    balances: bool,
}

fn appender(disk: &DiskShim, syncs: Syncs) -> Process {
    let test = std::env::current_exe().unwrap();
    let example = test.parent().unwrap().parent().unwrap().join("examples/spool_appender");
    let mut command = Command::new(example);
    command.arg(disk.path()).arg(MAX_BYTES);
    disk.apply(&mut command, syncs);
    Process::spawn("spool_appender", command)
}

fn numbers(process: &Process, word: &str) -> BTreeSet<u64> {
    let text = process.text(Stream::Out);
    let numbers =
        text.lines().filter_map(|line| line.strip_prefix(word)?.trim().split(':').next()?.parse().ok());
    numbers.collect()
}

fn coins(seed: u64) -> impl FnMut() -> bool {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 63 == 1
    }
}

fn look(folder: &Path) -> After {
    let reader = SpoolReader::open(folder, "the test").unwrap();
    assert_eq!(reader.rejected(0, 9).unwrap(), [], "nothing is called lost that was not acknowledged");
    let found = reader.waiting(0, 1_000_000).unwrap();
    let id = |found: &Spooled| {
        let record = found.record.as_ref().unwrap().message().unwrap();
        record.target.id.to_string().parse().unwrap()
    };
    let there = found.iter().map(id).collect();
    After { there, balances: reader.stats().unwrap().balances() }
}

fn lost(acknowledged: &BTreeSet<u64>, folder: &Path) -> Vec<u64> {
    let after = look(folder);
    assert!(after.balances);
    acknowledged.difference(&after.there).copied().collect()
}

#[tokio::test]
async fn what_was_acknowledged_before_a_power_cut_is_there_after_it() {
    for round in 0..8 {
        let disk = DiskShim::new();
        let mut writer = appender(&disk, Syncs::Work);
        writer.wait_for_line(&format!("acknowledged {}", 40 + 431 * round), SHORT).await;
        writer.end_by(Signal::KILL, SHORT).await;
        let acknowledged = numbers(&writer, "acknowledged ");
        assert!(acknowledged.len() as u64 > 400 * round, "{}", writer.tail());
        for seed in 0..4 {
            let lost = lost(&acknowledged, disk.cut(coins(10 * round + seed)).path());
            assert!(lost.is_empty(), "round {round}, seed {seed}: acknowledged and lost: {lost:?}");
        }
        // The disk keeps only synced pages.
        assert_eq!(lost(&acknowledged, disk.cut(|| false).path()), [0_u64; 0]);
    }
}

#[tokio::test]
async fn a_spool_that_syncs_nothing_would_be_found_out() {
    let disk = DiskShim::new();
    let mut writer = appender(&disk, Syncs::Lie);
    writer.wait_for_line("acknowledged 500", SHORT).await;
    writer.end_by(Signal::KILL, SHORT).await;
    let acknowledged = numbers(&writer, "acknowledged ");
    assert_eq!(lost(&acknowledged, disk.cut(|| false).path()).len(), acknowledged.len());
}

#[tokio::test]
async fn a_sync_that_fails_is_refused_and_costs_nothing_that_was_acknowledged_before_or_after() {
    // Syncs of commits, and of merges of the log into the database.
    let mut refused = 0;
    for number in [40, 41, 50, 100, 101, 102, 103, 104, 150, 170] {
        let disk = DiskShim::new();
        let mut writer = appender(&disk, Syncs::Fail(number));
        writer.wait_for_line("acknowledged 3000", SHORT).await;
        writer.end_by(Signal::KILL, SHORT).await;
        let acknowledged = numbers(&writer, "acknowledged ");
        refused += numbers(&writer, "refused ").len();
        for seed in 0..4 {
            let lost = lost(&acknowledged, disk.cut(coins(seed)).path());
            assert!(lost.is_empty(), "sync {number}, seed {seed}: acknowledged and lost: {lost:?}");
        }
        assert_eq!(lost(&acknowledged, disk.cut(|| false).path()), [0_u64; 0], "sync {number}");
    }
    assert!(refused > 0, "no failure of a commit was told");
}
