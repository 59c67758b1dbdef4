//! A day without a compensator: replaying the spool takes memory that does not grow with the number of records.

use super::steps::resting;
use super::{Host, target, topic};
use delayq::spool::SpoolRecord;
use delayq::{Admin, Fate, Message, UnixMillis};
use delayq_spool::{SpoolReader, SpoolSettings, SpoolStats, SpoolWriter};
use delayq_tests::deadline::{LONG, wait_until};
use delayq_tests::environment::at_length;
use delayq_tests::process::{Process, Signal};
use std::process::Command;
use std::time::{Duration, Instant};

const DAY_MS: u64 = 86_400_000;
const A_CANCEL_IN: u64 = 10;
/// Maximum resident memory of the process, in KiB: several times the memory of an idle process.
const MOST_KIB: u64 = 160 << 10;

/// The n-th of the day's records, at even intervals. Most puts are due within the day.
fn record(n: u64, count: u64, now: UnixMillis) -> SpoolRecord {
    let at = UnixMillis::new(now.get() - DAY_MS + n * DAY_MS / count);
    if n % A_CANCEL_IN == A_CANCEL_IN - 1 {
        return SpoolRecord::cancel(&topic(), &target(&format!("m{}", n - 5)), at);
    }
    let message = Message::new(topic(), "x".repeat(200)).id(format!("m{n}")).unwrap();
    SpoolRecord::put(&message.after(Duration::from_secs(6 * 3600)), Fate::NotApplied, at)
}

async fn after_a_day(count: u64) -> Host {
    let host = Host::start().await;
    let spool = SpoolWriter::open(host.folder.path(), &SpoolSettings { max_bytes: 4 << 30 }).unwrap();
    let now = host.deployment.now().await;
    for first in (0..count).step_by(5000) {
        let some = (first..first + 5000).map(|n| record(n, count, now));
        spool.append(some.collect()).await.unwrap();
    }
    host
}

fn start(host: &Host) -> Process {
    let config = host.folder.join("delayq.toml");
    let text = format!(
        "{}[admin]\nlisten = \"\"\n[spool]\ndir = \"{}\"\n",
        host.deployment.sections(),
        host.folder.path().display(),
    );
    std::fs::write(&config, text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_delayq-compensator"));
    command.arg(&config);
    Process::spawn("delayq-compensator", command)
}

async fn is_so(what: &str, is_so: impl Fn() -> bool) {
    wait_until(what, LONG * at_length(1, 20), async || is_so()).await;
}

async fn end(mut process: Process) -> u64 {
    let most_kib = process.most_kib().unwrap();
    process.ends_well_by(Signal::TERM, LONG).await;
    assert!(most_kib < MOST_KIB, "{most_kib} KiB");
    most_kib
}

async fn is_carried_out(host: &Host, count: u64, stats: SpoolStats) {
    let numbers = Admin::new(host.deployment.client.clone()).topic(&topic()).count().await.unwrap();
    let (cancels, puts) = (count / A_CANCEL_IN, count - count / A_CANCEL_IN);
    assert_eq!((numbers.accepted, numbers.cancelled), (puts, cancels), "{numbers:?}");
    assert_eq!(numbers.ready + numbers.delayed, puts - cancels, "{numbers:?}");
    assert!(stats.rejected == 0 && stats.balances(), "{stats:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_day_of_records_is_carried_out_in_memory_that_does_not_grow_with_them() {
    let count = at_length(20_000, 1_000_000);
    let host = after_a_day(count).await;
    let (process, began) = (start(&host), Instant::now());
    let books = SpoolReader::open_beside(host.folder.path()).unwrap();
    is_so("an empty spool", || books.books().unwrap().waiting == 0).await;
    let took = began.elapsed();
    println!("{count} records in {took:?}, at most {} KiB resident", end(process).await);
    is_carried_out(&host, count, books.stats().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn however_many_records_rest_they_take_no_memory_and_none_behind_them_waits() {
    let count = at_length(20_000, 1_000_000);
    let host = after_a_day(count).await;
    let rename = async |shard: u16, from: &str, to: &str| {
        let name = |of: &str| format!("{{dq:{shard}}}:{of}");
        let _: String = host.deployment.server.command(&["RENAME", &name(from), &name(to)]).await;
    };
    for shard in 0..3 {
        rename(shard, "meta", "away").await;
    }
    let process = start(&host);
    let books = SpoolReader::open_beside(host.folder.path()).unwrap();
    let marks = || resting(host.folder.path());
    is_so("all to be tried", || marks() == books.books().unwrap().waiting).await;
    let rest = marks();
    assert!(rest > count / 2 && books.books().unwrap().replayed > 0, "{rest} of {count} rest");
    for shard in 0..3 {
        rename(shard, "away", "meta").await;
    }
    is_so("an empty spool", || books.books().unwrap().waiting == 0).await;
    println!("{rest} of {count} records rested, at most {} KiB resident", end(process).await);
    is_carried_out(&host, count, books.stats().unwrap()).await;
}
