//! A record as a row of the database, and what it waits behind.

use crate::encoding;
use crate::error::SpoolError;
use delayq_core::id::{Group, MessageId, Topic};
use delayq_core::spool::SpoolRecord;
use rusqlite::{Connection, Transaction, params};
use sha2::{Digest, Sha256};

/// A row's overhead besides its body: its columns, its index entry, its share of the page.
const ROW_BYTES: u64 = 64;

/// A record that is to be appended.
pub(crate) struct Row {
    pub(crate) key: i64,
    group: Option<i64>,
    /// Its bytes, or why it can have none.
    pub(crate) body: Result<Vec<u8>, SpoolError>,
}

// === impl Row ===

impl From<&SpoolRecord> for Row {
    fn from(record: &SpoolRecord) -> Self {
        let checked = encoding::check(record).map_err(SpoolError::from);
        Self {
            key: key_of(&record.topic, &record.target.id),
            group: record.target.group.as_ref().map(key_of_group),
            body: checked.map(|()| encoding::encode(record)),
        }
    }
}

impl Row {
    /// The bytes that it writes.
    pub(crate) fn bytes(&self) -> usize {
        self.body.as_ref().map_or(0, Vec::len)
    }

    /// Its maximum size: once in the log and once in the database.
    pub(crate) fn cost(&self) -> u64 {
        2 * (self.bytes() as u64 + ROW_BYTES)
    }

    /// Whether a record of its message waits.
    pub(crate) fn has_one_waiting(&self, connection: &Connection) -> rusqlite::Result<bool> {
        connection.prepare_cached("SELECT 1 FROM waiting WHERE key = ?")?.exists([self.key])
    }

    pub(crate) fn insert(
        &self,
        transaction: &Transaction<'_>,
        now_ms: u64,
        body: &[u8],
    ) -> rusqlite::Result<()> {
        let sql = "INSERT INTO waiting (key, spooled_ms, body) VALUES (?, ?, ?)";
        transaction.prepare_cached(sql)?.execute(params![self.key, now_ms, body])?;
        match self.group {
            Some(group) => group_waits(transaction, transaction.last_insert_rowid(), group),
            None => Ok(()),
        }
    }
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
fn key_of(topic: &Topic, id: &MessageId) -> i64 {
    first_8_bytes(Sha256::new().chain_update(topic.as_str()).chain_update([0]).chain_update(id.as_bytes()))
}

/// Finds the records of a group, as [`key_of`] those of a message. A collision costs a needless wait, nothing else.
pub(crate) fn key_of_group(group: &Group) -> i64 {
    first_8_bytes(Sha256::new().chain_update(group.as_str()))
}

fn first_8_bytes(hash: Sha256) -> i64 {
    hash.finalize().iter().take(8).fold(0, |key, &byte| key << 8 | i64::from(byte))
}
