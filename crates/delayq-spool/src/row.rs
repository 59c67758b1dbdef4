//! A record as a row of the database, and what it waits behind.

use crate::encoding;
use crate::error::SpoolError;
use delayq_core::id::{Group, MessageId, Topic};
use delayq_core::spool::{AnyRecord, GroupRecord, SpoolRecord};
use rusqlite::{Connection, Statement, Transaction, params};
use sha2::{Digest, Sha256};

/// A row's overhead besides its body: its columns, its index entry, its share of the page.
const ROW_BYTES: u64 = 64;

/// Whether a record of a key waits: asked of each chunk of numbers, by which the index is divided. An old record that rests may
/// be many empty chunks away from the next one.
const WAITS: &str = "
    WITH RECURSIVE chunks (chunk) AS (
        SELECT min(seq) >> 13 FROM waiting
        UNION ALL SELECT (SELECT min(seq) >> 13 FROM waiting WHERE seq >= (chunk + 1) << 13) FROM chunks
        WHERE chunk IS NOT NULL)
    SELECT 1 FROM chunks CROSS JOIN waiting ON seq >> 13 = chunk AND key = ?";

/// Whether a waiting record has this note. A compensator of an earlier version leaves notes of what it has done.
const NOTED: &str = "SELECT 1 FROM waiting_group AS noted JOIN waiting USING (seq) WHERE noted.key = ?";

/// Appends a row.
pub(crate) const INSERT: &str = "INSERT INTO waiting (key, spooled_ms, body) VALUES (?, ?, ?)";

/// What `waiting_group` has of a record that may be of any group, where others have the key of their group.
const ANY_GROUP: i64 = 0;
/// What it has of a change of a group.
const CHANGE: i64 = 1;

/// A record that is to be appended.
pub(crate) struct Row {
    keys: Keys,
    /// Its bytes, or why it can have none.
    body: Result<Vec<u8>, SpoolError>,
}

/// By what a record is found, and what it waits behind.
///
/// | record | `waiting.key` | behind | `waiting_group.key` | behind |
/// | --- | --- | --- | --- | --- |
/// | of a message of no group | message | message | | |
/// | of a message of a group | message | message, group | group | |
/// | of a message of an unknown group | message | message | any | change |
/// | a change of a group | group | group | change | group, any |
struct Keys {
    key: i64,
    of: Of,
}

#[derive(Clone, Copy)]
enum Of {
    /// A message of no group.
    Message,
    /// A message of the group of this key.
    MessageIn(i64),
    MessageInAny,
    Group,
}

// === impl Row ===

impl From<&SpoolRecord> for Row {
    fn from(record: &SpoolRecord) -> Self {
        let checked = encoding::check(record).map_err(SpoolError::from);
        let body = checked.map(|()| encoding::encode_message(record));
        Self { keys: Keys::of_message(record), body }
    }
}

impl From<&GroupRecord> for Row {
    fn from(record: &GroupRecord) -> Self {
        Self { keys: Keys::of_group(record), body: Ok(encoding::encode_group(record)) }
    }
}

impl Row {
    /// Finds the records of its message, or the changes of its group.
    pub(crate) fn key(&self) -> i64 {
        self.keys.key
    }

    pub(crate) fn body(&self) -> Result<&[u8], SpoolError> {
        self.body.as_deref().map_err(Clone::clone)
    }

    /// The bytes that it writes.
    pub(crate) fn bytes(&self) -> usize {
        self.body.as_ref().map_or(0, Vec::len)
    }

    /// Its maximum size: once in the log and once in the database.
    pub(crate) fn cost(&self) -> u64 {
        2 * (self.bytes() as u64 + ROW_BYTES)
    }

    /// Whether something waits that it must not overtake.
    pub(crate) fn has_to_wait(&self, connection: &Connection) -> rusqlite::Result<bool> {
        let Keys { key, of } = self.keys;
        let waits = |key| connection.prepare_cached(WAITS)?.exists([key]);
        let noted = |key| connection.prepare_cached(NOTED)?.exists([key]);
        if waits(key)? {
            return Ok(true);
        }
        match of {
            Of::Message => Ok(false),
            Of::MessageIn(group) => waits(group),
            Of::MessageInAny => noted(CHANGE),
            Of::Group => Ok(noted(key)? || noted(ANY_GROUP)?),
        }
    }

    /// By [`INSERT`], prepared once for many rows.
    pub(crate) fn insert(
        &self,
        transaction: &Transaction<'_>,
        insert: &mut Statement<'_>,
        now_ms: u64,
        body: &[u8],
    ) -> rusqlite::Result<()> {
        let seq = insert.insert(params![self.keys.key, now_ms, body])?;
        self.keys.note(transaction, seq)
    }
}

// === impl Keys ===

impl Keys {
    fn of(record: &AnyRecord) -> Self {
        match record {
            AnyRecord::Message(record) => Self::of_message(record),
            AnyRecord::Group(record) => Self::of_group(record),
        }
    }

    fn of_message(record: &SpoolRecord) -> Self {
        let of = match &record.target.group {
            Some(group) => Of::MessageIn(key_of_group(group)),
            None if record.is_of_any_group() => Of::MessageInAny,
            None => Of::Message,
        };
        Self { key: key_of(&record.topic, &record.target.id), of }
    }

    fn of_group(record: &GroupRecord) -> Self {
        Self { key: key_of_group(&record.group), of: Of::Group }
    }

    /// Notes of which group a waiting record is.
    fn note(&self, transaction: &Transaction<'_>, seq: i64) -> rusqlite::Result<()> {
        let noted = match self.of {
            Of::Message => return Ok(()),
            Of::MessageIn(group) => group,
            Of::MessageInAny => ANY_GROUP,
            Of::Group => CHANGE,
        };
        let sql = "INSERT OR REPLACE INTO waiting_group (seq, key) VALUES (?, ?)";
        transaction.prepare_cached(sql)?.execute([seq, noted]).map(drop)
    }
}

/// Notes of which group a waiting record is.
pub(crate) fn note_group(
    transaction: &Transaction<'_>,
    seq: u64,
    record: &AnyRecord,
) -> rusqlite::Result<()> {
    Keys::of(record).note(transaction, seq.cast_signed())
}

/// Finds the records of a message: the first 8 bytes of the SHA-256 of topic, a zero byte, and id. A collision costs a
/// needless lookup, nothing else.
fn key_of(topic: &Topic, id: &MessageId) -> i64 {
    first_8_bytes(Sha256::new().chain_update(topic.as_str()).chain_update([0]).chain_update(id.as_bytes()))
}

/// Finds the records of a group, as [`key_of`] those of a message. A collision costs a needless wait, nothing else.
fn key_of_group(group: &Group) -> i64 {
    first_8_bytes(Sha256::new().chain_update(group.as_str()))
}

fn first_8_bytes(hash: Sha256) -> i64 {
    hash.finalize().iter().take(8).fold(0, |key, &byte| key << 8 | i64::from(byte))
}
