//! A compensator's or a producer's process ends right before a sync of the spool, at each of its steps.

use super::steps::Resubmitter;
use super::writes::{known_by_ids, writes};
use super::{FAR, Host, drain, message, target, topic};
use delayq::spool::SpoolRecord;
use delayq::{Client, Fate, Producer, ProducerOptions, PutOutcome, Settings, State, UnixMillis};
use delayq_spool::{SpoolSettings, SpoolWriter};
use delayq_tests::deadline::LONG;
use delayq_tests::disk_shim::{DiskShim, Syncs};
use delayq_tests::ports::free_port;
use delayq_tests::process::{Process, Stream};
use futures_util::future::join_all;
use std::env;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

const PROGRAM: &str = env!("CARGO_BIN_EXE_delayq-compensator");
const WRITES: u64 = 60;
const IDS: u64 = 6;
/// Of records a second, and so the most in a step.
const RATE: u64 = 7;

fn start(host: &Host, disk: &DiskShim, syncs: Syncs) -> Process {
    let config = host.folder.join("delayq.toml");
    let text = format!(
        "{}[admin]\nlisten = \"\"\n[spool]\ndir = \"{}\"\n[compensator]\nrate = {RATE}\n",
        host.deployment.sections(),
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
    // In each step: between Redis's answers and the note of the results. The steps come a second apart.
    let ends = (1..=6).map(async |number| {
        let host = Host::start().await;
        let disk = DiskShim::new();
        let spool = SpoolWriter::open(disk.path(), &SpoolSettings::default()).unwrap();
        spool.append(writes(WRITES, IDS).map(|write| write.record()).collect()).await.unwrap();
        let mut process = start(&host, &disk, Syncs::End(number));
        let ended = process.wait_end(LONG).await;
        assert_eq!(ended.code(), None, "sync {number}: it ended by itself: {}", process.tail());
        let mut resubmitter = Resubmitter::new(disk.path(), host.deployment.client.clone(), 500).await;
        let left = resubmitter.stats().await.unwrap();
        assert!(left.waiting > 0 && left.balances(), "sync {number}: {left:?}");
        drain(&mut resubmitter).await;
        assert_eq!(known_by_ids(&host, IDS).await, expected, "sync {number}");
        let stats = resubmitter.stats().await.unwrap();
        assert!(stats.waiting == 0 && stats.balances(), "sync {number}: {stats:?}");
    });
    join_all(ends).await;
}

#[tokio::test]
async fn a_put_that_replaces_is_not_taken_for_an_older_one_of_its_message_whenever_a_compensator_ends() {
    let (host, disk) = (Host::start().await, DiskShim::new());
    let spool = SpoolWriter::open(disk.path(), &SpoolSettings::default()).unwrap();
    let at = UnixMillis::new(1);
    let records = [
        SpoolRecord::put(&message("a"), Fate::NotApplied, at),
        SpoolRecord::cancel(&topic(), &target("a"), at),
        SpoolRecord::put(&message("a").replace(), Fate::NotApplied, at),
    ];
    spool.append(records.to_vec()).await.unwrap();
    // Redis carried out all records, and the spool noted none.
    let mut process = start(&host, &disk, Syncs::End(1));
    let ended = process.wait_end(LONG).await;
    assert_eq!(ended.code(), None, "it ended by itself: {}", process.tail());
    drain(&mut Resubmitter::new(disk.path(), host.deployment.client.clone(), 500).await).await;
    let present = host.present(message("a")).await;
    assert_eq!(present, PutOutcome::Exists(State::Delayed, FAR));
}

const SPOOL: &str = "DELAYQ_TEST_SPOOL";
const FIRST: &str = "DELAYQ_TEST_FIRST";
const ACKNOWLEDGED: &str = "acknowledged";

/// The process that [`produce`] starts: a producer without a Redis writes one record after the other.
#[tokio::test]
#[ignore = "a process that another test starts"]
#[allow(clippy::disallowed_methods, reason = "what the test that starts it says")]
async fn the_producer() {
    let (spool, first) = (env::var(SPOOL).unwrap(), env::var(FIRST).unwrap().parse().unwrap());
    let spool = SpoolWriter::open(Path::new(&spool), &SpoolSettings::default()).unwrap();
    let client = Client::new(Settings::new(format!("redis://127.0.0.1:{}", free_port())));
    let producer = Producer::start(client, ProducerOptions::default().spool(Arc::new(spool)));
    for write in writes(WRITES, IDS).skip(first) {
        write.carry_out(&producer).await;
        println!("{ACKNOWLEDGED} {}", write.n);
    }
}

/// Runs the producer from the write `first` to its end; returns the number of writes acknowledged as spooled.
async fn produce(disk: &DiskShim, syncs: Syncs, first: usize) -> usize {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "aborts::the_producer", "--nocapture"]);
    command.env(SPOOL, disk.path()).env(FIRST, first.to_string());
    disk.apply(&mut command, syncs);
    let mut process = Process::spawn("producer", command);
    let ended = process.wait_end(LONG).await;
    assert_eq!(ended.code().is_none(), matches!(syncs, Syncs::End(_)), "{}", process.tail());
    process.text(Stream::Out).matches(ACKNOWLEDGED).count()
}

#[tokio::test]
async fn a_producer_that_ends_between_any_two_steps_and_repeats_its_last_write_changes_nothing_of_the_result()
{
    let calm = Host::start().await;
    for write in writes(WRITES, IDS) {
        write.carry_out(&calm.producer).await;
    }
    let expected = known_by_ids(&calm, IDS).await;
    // The first syncs create the file; then each write has a sync before its commit.
    for number in [1, 2, 3, 4, 5, 6, 7, 8, 12, 30] {
        let (host, disk) = (Host::start().await, DiskShim::new());
        let before = produce(&disk, Syncs::End(number), 0).await;
        let after = produce(&disk, Syncs::Work, before).await;
        assert_eq!((before + after) as u64, WRITES, "sync {number}");
        let mut resubmitter = Resubmitter::new(disk.path(), host.deployment.client.clone(), 500).await;
        let spooled = resubmitter.stats().await.unwrap();
        // The write under way is there once more if written before the sync.
        assert!(
            spooled.balances() && (WRITES..=WRITES + 1).contains(&spooled.waiting),
            "sync {number}: {spooled:?}"
        );
        drain(&mut resubmitter).await;
        assert_eq!(known_by_ids(&host, IDS).await, expected, "sync {number}");
    }
}
