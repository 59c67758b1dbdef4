//! The one thread of a process that writes to its spool: records that wait at the same time share a commit.

use crate::error::SpoolError;
use crate::{clock, encoding, file};
use delayq_core::id::{MessageId, Topic};
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

/// An append that callers wait for.
pub(crate) struct Append {
    pub(crate) rows: Vec<Row>,
    /// Only if a record of this message waits already.
    pub(crate) only_after: Option<i64>,
    /// Whether it was appended.
    pub(crate) answer: oneshot::Sender<Result<bool, SpoolError>>,
}

pub(crate) struct Row {
    key: i64,
    body: Vec<u8>,
}

pub(crate) struct Committer {
    connection: Connection,
    path: PathBuf,
    max_bytes: u64,
    /// Held while the thread runs.
    _shared: File,
}

// === impl Row ===

impl From<&SpoolRecord> for Row {
    fn from(record: &SpoolRecord) -> Self {
        Self { key: key_of(&record.topic, &record.target.id), body: encoding::encode(record) }
    }
}

// === impl Append ===

impl Append {
    fn bytes(&self) -> usize {
        self.rows.iter().map(|row| row.body.len()).sum()
    }
}

// === impl Committer ===

impl Committer {
    pub(crate) fn open(dir: &Path, max_bytes: u64) -> Result<Self, SpoolError> {
        let shared = file::share(dir)?;
        let connection = file::open(dir)?;
        let path = dir.join(file::NAME);
        // The log, which duplicates what the database takes, may use a quarter of the bound.
        let pages = (max_bytes / 4 / 4096).clamp(16, 1000);
        let set = connection.pragma_update(None, "wal_autocheckpoint", pages);
        set.map_err(|error| SpoolError::of(&path, &error))?;
        Ok(Self { connection, path, max_bytes, _shared: shared })
    }

    /// Runs until the last [`crate::SpoolWriter`] is dropped and all accepted records are written.
    pub(crate) fn run(mut self, mut queue: mpsc::Receiver<Append>) {
        while let Some(first) = queue.blocking_recv() {
            let mut bytes = first.bytes();
            let mut appends = vec![first];
            while bytes < COMMIT_BYTES
                && let Ok(next) = queue.try_recv()
            {
                bytes += next.bytes();
                appends.push(next);
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

    /// Writes all in one transaction; no caller gets an answer before it is on disk.
    fn commit(&mut self, appends: &[Append]) -> Result<Vec<Result<bool, SpoolError>>, SpoolError> {
        let mut room = self.room(appends)?;
        let Self { connection, path, max_bytes, .. } = self;
        let of = |error: rusqlite::Error| SpoolError::of(path, &error);
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(of)?;
        let mut results = Vec::with_capacity(appends.len());
        let mut count = 0;
        for append in appends {
            let bytes = cost(append);
            if bytes > room {
                let taken = max_bytes.saturating_sub(room);
                results.push(Err(SpoolError::Full { bytes: taken, max_bytes: *max_bytes }));
                continue;
            }
            let wanted = append.only_after.map_or(Ok(true), |key| waits(&transaction, key)).map_err(of)?;
            if wanted {
                insert(&transaction, &append.rows).map_err(of)?;
                room -= bytes;
                count += append.rows.len();
            }
            results.push(Ok(wanted));
        }
        transaction.execute("UPDATE books SET spooled = spooled + ?", [count as u64]).map_err(of)?;
        transaction.commit().map_err(of)?;
        Ok(results)
    }

    /// The bytes still available; empties the log first if they would not suffice.
    fn room(&self, appends: &[Append]) -> Result<u64, SpoolError> {
        let room = |used: u64| self.max_bytes.saturating_sub(used);
        let wanted: u64 = appends.iter().map(cost).sum();
        let left = room(file::used_bytes(&self.connection, &self.path)?);
        if left >= wanted {
            return Ok(left);
        }
        file::empty_log(&self.connection, &self.path)?;
        Ok(room(file::used_bytes(&self.connection, &self.path)?))
    }
}

/// Its maximum size: once in the log and once in the database.
fn cost(append: &Append) -> u64 {
    append.rows.iter().map(|row| 2 * (row.body.len() as u64 + ROW_BYTES)).sum()
}

fn waits(transaction: &Transaction<'_>, key: i64) -> rusqlite::Result<bool> {
    transaction.prepare_cached("SELECT 1 FROM waiting WHERE key = ?")?.exists([key])
}

fn insert(transaction: &Transaction<'_>, rows: &[Row]) -> rusqlite::Result<()> {
    let now = clock::now().get();
    let mut insert =
        transaction.prepare_cached("INSERT INTO waiting (key, spooled_ms, body) VALUES (?, ?, ?)")?;
    for row in rows {
        insert.execute(params![row.key, now, row.body])?;
    }
    Ok(())
}

/// Finds the records of a message: the first 8 bytes of the SHA-256 of topic, a zero byte, and id. A collision costs a
/// needless lookup, nothing else.
pub(crate) fn key_of(topic: &Topic, id: &MessageId) -> i64 {
    let digest =
        Sha256::new().chain_update(topic.as_str()).chain_update([0]).chain_update(id.as_bytes()).finalize();
    digest.iter().take(8).fold(0, |key, &byte| key << 8 | i64::from(byte))
}
