//! The spool on a real disk: acknowledged records stay, damage is named, and access is limited.
#![allow(clippy::unwrap_used, reason = "all of it is tests, the functions that they share included")]

mod books;
mod damage;
mod files;
mod killed;
mod log;
mod moved;
mod order;
mod power_cut;
mod room;

use delayq_core::fate::Fate;
use delayq_core::id::{Group, Topic};
use delayq_core::message::Message;
use delayq_core::spool::{AnyRecord, GroupChange, GroupRecord, SpoolRecord};
use delayq_core::time::UnixMillis;
use delayq_spool::{Settled, SpoolError, SpoolReader, SpoolSettings, SpoolWriter};
use delayq_tests::deadline::SHORT;
use std::fs;
use std::path::Path;

fn topic() -> Topic {
    Topic::new("orders").unwrap()
}

fn put(id: &str, bytes: usize) -> SpoolRecord {
    let message = Message::new(topic(), vec![b'x'; bytes]).id(id).unwrap();
    SpoolRecord::put(&message, Fate::NotApplied, UnixMillis::new(1_000))
}

fn cancel_group(group: &str) -> GroupRecord {
    let group = Group::new(group).unwrap();
    GroupRecord {
        group,
        topic: None,
        tried_at: UnixMillis::new(1),
        fate: Fate::NotApplied,
        change: GroupChange::Cancel,
    }
}

fn open(folder: &Path) -> Result<SpoolWriter, SpoolError> {
    SpoolWriter::open(folder, &SpoolSettings::default())
}

/// A child of another test holds this process's locks until its start is complete: retry for that long.
#[allow(clippy::disallowed_methods, reason = "a deadline of a test")]
fn reader(folder: &Path) -> SpoolReader {
    let patience = std::time::Instant::now() + SHORT;
    loop {
        match SpoolReader::open(folder, "the test") {
            Err(SpoolError::Held { .. }) if std::time::Instant::now() < patience => std::thread::yield_now(),
            opened => return opened.unwrap(),
        }
    }
}

trait Notes {
    fn done(&mut self, seqs: &[u64]) -> Result<(), SpoolError>;
    fn reject(&mut self, seq: u64, reason: &str) -> Result<(), SpoolError>;
}

impl Notes for SpoolReader {
    fn done(&mut self, seqs: &[u64]) -> Result<(), SpoolError> {
        self.note(&Settled { done: seqs.to_vec(), ..Settled::default() })
    }

    fn reject(&mut self, seq: u64, reason: &str) -> Result<(), SpoolError> {
        self.note(&Settled { rejected: vec![(seq, reason.to_owned())], ..Settled::default() })
    }
}

fn of_message(record: Result<AnyRecord, String>) -> SpoolRecord {
    record.unwrap().message().unwrap().clone()
}

fn ids(reader: &SpoolReader) -> Vec<String> {
    let batch = reader.waiting(0, 100_000).unwrap();
    batch.into_iter().map(|spooled| of_message(spooled.record).target.id.to_string()).collect()
}

async fn spooled(folder: &Path, count: usize, bytes: usize) {
    let spool = open(folder).unwrap();
    spool.append((0..count).map(|n| put(&format!("m{n}"), bytes)).collect()).await.unwrap();
}

/// Waits until no process holds the folder: the thread of the last spool, or a child of another test.
async fn released(folder: &Path) {
    delayq_tests::deadline::wait_until("the folder to be released", SHORT, || async {
        let free = |name| match fs::File::open(folder.join(name)) {
            Ok(file) => file.try_lock().is_ok(),
            Err(_) => true,
        };
        free("users.lock") && free("compensator.lock")
    })
    .await;
}
