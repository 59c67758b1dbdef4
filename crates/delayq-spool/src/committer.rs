//! The one thread of a process that writes to its spool: records that wait at the same time share a commit.

use crate::error::SpoolError;
use crate::flag::Flag;
use crate::{clock, encoding, file};
use delayq_core::id::{Group, MessageId, Topic};
use delayq_core::spool::SpoolRecord;
use rusqlite::{Connection, Transaction, TransactionBehavior, params};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::path::{Path, PathBuf};
use tokio::sync::{mpsc, oneshot};

/// Maximum bytes of one commit, so that no caller waits long for others.
const COMMIT_BYTES: usize = 16 * 1024 * 1024;

/// A row's overhead besides its body: its columns, its index entry, its share of the page.
const ROW_BYTES: u64 = 64;

/// What a caller waits for.
pub(crate) enum Request {
    /// Records to append.
    Append(Append),
    /// Whether a record of the group of this key waits.
    HoldsGroup(i64, oneshot::Sender<Result<bool, SpoolError>>),
}

/// Records that a caller appends together.
pub(crate) struct Append {
    pub(crate) rows: Vec<Row>,
    /// Each only if a record of its message waits already.
    pub(crate) only_behind: bool,
    /// Which of them were appended.
    pub(crate) answer: oneshot::Sender<Result<Vec<bool>, SpoolError>>,
}

pub(crate) struct Row {
    key: i64,
    group: Option<i64>,
    body: Vec<u8>,
}

pub(crate) struct Committer {
    connection: Connection,
    path: PathBuf,
    max_bytes: u64,
    flag: Flag,
    /// Held while the thread runs.
    _shared: File,
}

// === impl Row ===

impl From<&SpoolRecord> for Row {
    fn from(record: &SpoolRecord) -> Self {
        Self {
            key: key_of(&record.topic, &record.target.id),
            group: record.target.group.as_ref().map(key_of_group),
            body: encoding::encode(record),
        }
    }
}

impl Row {
    /// Its maximum size: once in the log and once in the database.
    fn cost(&self) -> u64 {
        2 * (self.body.len() as u64 + ROW_BYTES)
    }
}

// === impl Append ===

impl Append {
    fn bytes(&self) -> usize {
        self.rows.iter().map(|row| row.body.len()).sum()
    }

    /// The rows that are to be appended, by what waits now.
    fn wanted(&self, connection: &Connection) -> rusqlite::Result<Vec<bool>> {
        match self.only_behind {
            false => Ok(vec![true; self.rows.len()]),
            true => self.rows.iter().map(|row| waits(connection, row.key)).collect(),
        }
    }
}

// === impl Committer ===

impl Committer {
    pub(crate) fn open(dir: &Path, max_bytes: u64) -> Result<Self, SpoolError> {
        let shared = file::share(dir)?;
        let mut connection = file::open(dir)?;
        let flag = Flag::open(dir)?;
        flag.renew(&mut connection)?;
        let path = dir.join(file::NAME);
        // The log, which duplicates what the database takes, may use a quarter of the bound.
        let pages = (max_bytes / 4 / 4096).clamp(16, 1000);
        let set = connection.pragma_update(None, "wal_autocheckpoint", pages);
        set.map_err(|error| SpoolError::of(&path, &error))?;
        Ok(Self { connection, path, max_bytes, flag, _shared: shared })
    }

    pub(crate) fn flag(&self) -> &Flag {
        &self.flag
    }

    /// Runs until the last [`crate::SpoolWriter`] is dropped and all accepted records are written.
    pub(crate) fn run(mut self, mut queue: mpsc::Receiver<Request>) {
        while let Some(first) = queue.blocking_recv() {
            let (mut bytes, mut appends, mut next) = (0, Vec::new(), Ok(first));
            while let Ok(request) = next {
                match request {
                    Request::HoldsGroup(key, answer) => drop(answer.send(self.holds_group(key))),
                    Request::Append(append) => {
                        bytes += append.bytes();
                        appends.push(append);
                    }
                }
                if bytes >= COMMIT_BYTES {
                    break;
                }
                next = queue.try_recv();
            }
            let results = match self.commit(&appends) {
                Ok(results) => results,
                Err(error) => vec![Err(error); appends.len()],
            };
            for (append, result) in appends.into_iter().zip(results) {
                // The caller may be gone: what is appended is resubmitted all the same.
                let _ = append.answer.send(result);
            }
        }
    }

    fn holds_group(&self, key: i64) -> Result<bool, SpoolError> {
        let held = self.connection.prepare_cached("SELECT 1 FROM waiting_group WHERE key = ?");
        held.and_then(|mut held| held.exists([key])).map_err(|error| SpoolError::of(&self.path, &error))
    }

    /// Writes all in one transaction; no caller gets an answer before it is on disk.
    fn commit(&mut self, appends: &[Append]) -> Result<Vec<Result<Vec<bool>, SpoolError>>, SpoolError> {
        // Asked first without a lock: most writes have nothing to wait for.
        let wanted: rusqlite::Result<Vec<_>> =
            appends.iter().map(|append| append.wanted(&self.connection)).collect();
        let wanted = wanted.map_err(|error| SpoolError::of(&self.path, &error))?;
        if !wanted.iter().flatten().any(|&is| is) {
            return Ok(wanted.into_iter().map(Ok).collect());
        }
        let mut room = self.room(appends)?;
        let Self { connection, path, max_bytes, flag, .. } = self;
        let of = |error: rusqlite::Error| SpoolError::of(path, &error);
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(of)?;
        let mut results = Vec::with_capacity(appends.len());
        let mut count = 0;
        for append in appends {
            let wanted = append.wanted(&transaction).map_err(of)?;
            let rows = || append.rows.iter().zip(&wanted).filter(|&(_, &is)| is).map(|(row, _)| row);
            let bytes: u64 = rows().map(Row::cost).sum();
            if bytes > room {
                let taken = max_bytes.saturating_sub(room);
                results.push(Err(SpoolError::Full { bytes: taken, max_bytes: *max_bytes }));
                continue;
            }
            insert(&transaction, rows()).map_err(of)?;
            room -= bytes;
            count += rows().count();
            results.push(Ok(wanted));
        }
        if count == 0 {
            return Ok(results);
        }
        flag.set()?;
        transaction.execute("UPDATE books SET spooled = spooled + ?", [count as u64]).map_err(of)?;
        transaction.commit().map_err(of)?;
        Ok(results)
    }

    /// The bytes still available; empties the log first if they would not suffice.
    fn room(&self, appends: &[Append]) -> Result<u64, SpoolError> {
        let room = |used: u64| self.max_bytes.saturating_sub(used);
        let wanted: u64 = appends.iter().flat_map(|append| &append.rows).map(Row::cost).sum();
        let left = room(file::used_bytes(&self.connection, &self.path)?);
        if left >= wanted {
            return Ok(left);
        }
        file::empty_log(&self.connection, &self.path)?;
        Ok(room(file::used_bytes(&self.connection, &self.path)?))
    }
}

fn waits(connection: &Connection, key: i64) -> rusqlite::Result<bool> {
    connection.prepare_cached("SELECT 1 FROM waiting WHERE key = ?")?.exists([key])
}

fn insert<'a>(transaction: &Transaction<'_>, rows: impl Iterator<Item = &'a Row>) -> rusqlite::Result<()> {
    let now = clock::now().get();
    let mut insert =
        transaction.prepare_cached("INSERT INTO waiting (key, spooled_ms, body) VALUES (?, ?, ?)")?;
    for row in rows {
        insert.execute(params![row.key, now, row.body])?;
        if let Some(group) = row.group {
            group_waits(transaction, transaction.last_insert_rowid(), group)?;
        }
    }
    Ok(())
}

/// Notes the group of a waiting record, if its message has one.
pub(crate) fn note_group(
    transaction: &Transaction<'_>,
    seq: u64,
    record: &SpoolRecord,
) -> rusqlite::Result<()> {
    match &record.target.group {
        Some(group) => group_waits(transaction, seq.cast_signed(), key_of_group(group)),
        None => Ok(()),
    }
}

fn group_waits(transaction: &Transaction<'_>, seq: i64, group: i64) -> rusqlite::Result<()> {
    let sql = "INSERT OR REPLACE INTO waiting_group (seq, key) VALUES (?, ?)";
    transaction.prepare_cached(sql)?.execute([seq, group]).map(drop)
}

/// Finds the records of a message: the first 8 bytes of the SHA-256 of topic, a zero byte, and id. A collision costs a
/// needless lookup, nothing else.
pub(crate) fn key_of(topic: &Topic, id: &MessageId) -> i64 {
    first_8_bytes(Sha256::new().chain_update(topic.as_str()).chain_update([0]).chain_update(id.as_bytes()))
}

/// Finds the records of a group, as [`key_of`] those of a message. A collision costs a needless wait, nothing else.
pub(crate) fn key_of_group(group: &Group) -> i64 {
    first_8_bytes(Sha256::new().chain_update(group.as_str()))
}

fn first_8_bytes(hash: Sha256) -> i64 {
    hash.finalize().iter().take(8).fold(0, |key, &byte| key << 8 | i64::from(byte))
}
