//! A day without a compensator: what was spooled is carried out in memory that does not grow with it.

use super::{Host, target, topic};
use delayq::spool::SpoolRecord;
use delayq::{Admin, Fate, Message, UnixMillis};
use delayq_spool::{SpoolReader, SpoolSettings, SpoolWriter};
use delayq_tests::deadline::{LONG, wait_until};
use delayq_tests::environment::at_length;
use delayq_tests::process::{Process, Signal};
use std::cell::Cell;
use std::process::Command;
use std::time::{Duration, Instant};

const DAY_MS: u64 = 86_400_000;
/// Every tenth record cancels the put five records before it.
const A_CANCEL_IN: u64 = 10;
/// Maximum resident memory of the process, in KiB: several times as much as an idle one has.
const MOST_KIB: u64 = 160 << 10;

/// The n-th of the day's records, evenly spread over it. Most puts are due within the day.
fn record(n: u64, count: u64, now: UnixMillis) -> SpoolRecord {
    let at = UnixMillis::new(now.get() - DAY_MS + n * DAY_MS / count);
    if n % A_CANCEL_IN == A_CANCEL_IN - 1 {
        return SpoolRecord::cancel(&topic(), &target(&format!("m{}", n - 5)), at);
    }
    let message = Message::new(topic(), "x".repeat(200)).id(format!("m{n}")).unwrap();
    SpoolRecord::put(&message.after(Duration::from_secs(6 * 3600)), Fate::NotApplied, at)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_day_of_records_is_carried_out_in_memory_that_does_not_grow_with_them() {
    let count = at_length(20_000, 1_000_000);
    let host = Host::start().await;
    let spool = SpoolWriter::open(host.folder.path(), &SpoolSettings { max_bytes: 4 << 30 }).unwrap();
    let now = host.deployment.now().await;
    for first in (0..count).step_by(5000) {
        let some = (first..first + 5000).map(|n| record(n, count, now));
        spool.append(some.collect()).await.unwrap();
    }
    let config = host.folder.join("delayq.toml");
    let text = format!(
        "{}[admin]\nlisten = \"\"\n[spool]\ndir = \"{}\"\n",
        host.deployment.sections(),
        host.folder.path().display(),
    );
    std::fs::write(&config, text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_delayq-compensator"));
    command.arg(&config);
    let (mut process, began) = (Process::spawn("delayq-compensator", command), Instant::now());
    let (books, most_kib) = (SpoolReader::open_beside(host.folder.path()).unwrap(), Cell::new(0));
    wait_until("an empty spool", LONG * at_length(1, 20), async || {
        most_kib.set(most_kib.get().max(process.resident_kib().unwrap()));
        books.books().unwrap().waiting == 0
    })
    .await;
    println!("{count} records in {:?}, at most {} KiB resident", began.elapsed(), most_kib.get());
    process.ends_well_by(Signal::TERM, LONG).await;
    assert!(most_kib.get() < MOST_KIB, "{} KiB", most_kib.get());
    let numbers = Admin::new(host.deployment.client.clone()).count(&topic()).await.unwrap();
    let (cancels, puts) = (count / A_CANCEL_IN, count - count / A_CANCEL_IN);
    assert_eq!((numbers.accepted, numbers.cancelled), (puts, cancels), "{numbers:?}");
    assert_eq!(numbers.ready + numbers.delayed, puts - cancels, "{numbers:?}");
    let stats = books.stats().unwrap();
    assert!(stats.rejected == 0 && stats.balances(), "{stats:?}");
}
