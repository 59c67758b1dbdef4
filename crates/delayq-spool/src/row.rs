//! A record as a row of the database, and the records to wait behind.

use crate::clock::Moment;
use crate::error::SpoolError;
use crate::{encoding, keys};
use delayq_core::id::{Group, Topic};
use delayq_core::spool::{AnyRecord, GroupRecord, SpoolAction, SpoolRecord};
use delayq_core::target::Target;
use rusqlite::{Connection, Transaction};
use sha2::{Digest, Sha256};
use std::collections::HashSet;
use std::ops::Range;
use std::sync::LazyLock;

/// A row's overhead besides the body: columns, index entry, share of the page.
const ROW_BYTES: u64 = 64;

/// Finds a waiting record with this note.
const NOTED: &str = "SELECT 1 FROM waiting_group WHERE key = ?";

/// Approximate bytes of a record besides the payload.
const HEAD_BYTES: usize = 128;

/// Numbers of rows that one statement can append; the largest that fits is used, because each statement reads and writes the
/// last number.
const TOGETHER: [usize; 3] = [32, 8, 1];

/// The key in `waiting_group` of a record that may belong to any group. Other records have the key of the group.
const ANY_GROUP: i64 = 0;
/// The key in `waiting_group` of a change of a group.
const CHANGE: i64 = 1;

#[derive(Default)]
pub(crate) struct Rows {
    rows: Vec<SpoolRow>,
    /// The bytes of all, so that the thread that writes has few pieces of memory to free.
    bytes: Vec<u8>,
}

pub(crate) struct SpoolRow {
    keys: RecordKeys,
    /// The place of the bytes, or why the record cannot be encoded.
    body: Result<Range<usize>, SpoolError>,
}

/// The waiting records, as far as [`RecordKeys::read_on`](keys::Keys::read_on) has read.
pub(crate) struct WaitingRecords<'k> {
    pub(crate) connection: &'k Connection,
    pub(crate) keys: &'k keys::Keys,
}

/// The rows to append in one transaction.
#[derive(Default)]
pub(crate) struct Chosen<'r> {
    rows: Vec<(&'r SpoolRow, &'r [u8])>,
    /// Some append checks for records to wait behind.
    is_asked: bool,
    /// For that check: the keys of these rows, and the keys for `waiting_group`.
    keys: HashSet<i64>,
    noted: HashSet<i64>,
}

/// The keys of a record, and of the records to wait behind.
///
/// | record | `waiting.key` | behind | `waiting_group.key` | behind |
/// | --- | --- | --- | --- | --- |
/// | of a message of no group | message | message | | |
/// | of a message of a group | message | message, group | group | |
/// | of a message of an unknown group | message | message | any | change |
/// | a change of a group | group | group | change | group, any |
struct RecordKeys {
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

// === impl Rows ===

impl Rows {
    pub(crate) fn of_messages(records: &[SpoolRecord]) -> Self {
        let payload = |record: &SpoolRecord| match &record.action {
            SpoolAction::Put(message) => message.payload.len(),
            _ => 0,
        };
        let bytes = records.iter().map(|record| HEAD_BYTES + payload(record)).sum();
        let mut rows = Self { rows: Vec::with_capacity(records.len()), bytes: Vec::with_capacity(bytes) };
        for record in records {
            let keys = RecordKeys::of_message(record);
            match encoding::check(record) {
                Ok(()) => rows.push(keys, |bytes| encoding::encode_message(record, bytes)),
                Err(error) => rows.rows.push(SpoolRow { keys, body: Err(error.into()) }),
            }
        }
        rows
    }

    pub(crate) fn of_group(record: &GroupRecord) -> Self {
        let mut rows = Self::default();
        rows.push(RecordKeys::of_group(record), |bytes| encoding::encode_group(record, bytes));
        rows
    }

    fn push(&mut self, keys: RecordKeys, encode: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        encode(&mut self.bytes);
        self.rows.push(SpoolRow { keys, body: Ok(start..self.bytes.len()) });
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &SpoolRow> {
        self.rows.iter()
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn body(&self, row: &SpoolRow) -> Result<&[u8], SpoolError> {
        row.body.as_ref().map(|place| &self.bytes[place.clone()]).map_err(Clone::clone)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }
}

// === impl SpoolRow ===

impl SpoolRow {
    /// The key of the message's records, or of the group's changes.
    pub(crate) fn key(&self) -> i64 {
        self.keys.key
    }

    /// Maximum size of the row: once in the log and once in the database.
    pub(crate) fn cost(&self) -> u64 {
        2 * (self.body.as_ref().map_or(0, Range::len) as u64 + ROW_BYTES)
    }

    /// True if a record that this row must not overtake waits, or is appended first.
    pub(crate) fn has_to_wait(
        &self,
        known: &WaitingRecords<'_>,
        chosen: &Chosen<'_>,
    ) -> rusqlite::Result<bool> {
        let WaitingRecords { connection, keys } = known;
        let waits = |key| Ok(chosen.keys.contains(&key) || keys.waits(connection, key)?);
        let noted = |key| Ok(chosen.noted.contains(&key) || connection.prepare_cached(NOTED)?.exists([key])?);
        self.keys.is_behind(waits, noted)
    }
}

// === impl Chosen ===

impl<'r> Chosen<'r> {
    /// No rows; `is_asked`: some append checks for records to wait behind.
    pub(crate) fn new(is_asked: bool) -> Self {
        Self { is_asked, ..Self::default() }
    }

    pub(crate) fn push(&mut self, row: &'r SpoolRow, body: &'r [u8]) {
        self.rows.push((row, body));
        if self.is_asked {
            self.keys.insert(row.keys.key);
            self.noted.extend(row.keys.noted());
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns the last number.
    pub(crate) fn append(&self, transaction: &Transaction<'_>, now: Moment) -> rusqlite::Result<i64> {
        let (mut left, mut last) = (&self.rows[..], 0);
        while let Some(count) = TOGETHER.into_iter().find(|count| *count <= left.len()) {
            let (some, rest) = left.split_at(count);
            let mut insert = transaction.prepare_cached(insert_of(count))?;
            insert.raw_bind_parameter(1, now.wall.get())?;
            insert.raw_bind_parameter(2, now.boot)?;
            insert.raw_bind_parameter(3, now.up_ms)?;
            for (i, (row, body)) in some.iter().enumerate() {
                insert.raw_bind_parameter(2 * i + 4, row.keys.key)?;
                insert.raw_bind_parameter(2 * i + 5, *body)?;
            }
            insert.raw_execute()?;
            last = transaction.last_insert_rowid();
            for ((row, _), seq) in some.iter().zip(last + 1 - count as i64..) {
                row.keys.note(transaction, seq)?;
            }
            left = rest;
        }
        Ok(last)
    }
}

/// The statement that appends so many rows. A failure undoes the whole transaction, not the statement.
fn insert_of(count: usize) -> &'static str {
    static INSERTS: LazyLock<[String; TOGETHER.len()]> = LazyLock::new(|| {
        TOGETHER.map(|count| {
            let rows: Vec<String> =
                (1..=count).map(|i| format!("(?{}, ?1, ?2, ?3, ?{})", 2 * i + 2, 2 * i + 3)).collect();
            let columns = "key, spooled_ms, boot, up_ms, body";
            format!("INSERT OR FAIL INTO waiting ({columns}) VALUES {}", rows.join(", "))
        })
    });
    let place = TOGETHER.iter().position(|other| *other == count);
    &INSERTS[place.expect("a count of those")]
}

// === impl RecordKeys ===

impl RecordKeys {
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
        Self { key: key_of(&record.topic, &record.target), of }
    }

    fn of_group(record: &GroupRecord) -> Self {
        Self { key: key_of_group(&record.group), of: Of::Group }
    }

    /// True if a record has one of the keys, or one of the notes, that this record must not overtake.
    fn is_behind(
        &self,
        has: impl Fn(i64) -> rusqlite::Result<bool>,
        noted: impl Fn(i64) -> rusqlite::Result<bool>,
    ) -> rusqlite::Result<bool> {
        if has(self.key)? {
            return Ok(true);
        }
        match self.of {
            Of::Message => Ok(false),
            Of::MessageIn(group) => has(group),
            Of::MessageInAny => noted(CHANGE),
            Of::Group => Ok(noted(self.key)? || noted(ANY_GROUP)?),
        }
    }

    fn noted(&self) -> Option<i64> {
        match self.of {
            Of::Message => None,
            Of::MessageIn(group) => Some(group),
            Of::MessageInAny => Some(ANY_GROUP),
            Of::Group => Some(CHANGE),
        }
    }

    fn note(&self, transaction: &Transaction<'_>, seq: i64) -> rusqlite::Result<()> {
        let Some(noted) = self.noted() else { return Ok(()) };
        let sql = "INSERT OR REPLACE INTO waiting_group (seq, key) VALUES (?, ?)";
        transaction.prepare_cached(sql)?.execute([seq, noted]).map(drop)
    }
}

pub(crate) fn note_group(
    transaction: &Transaction<'_>,
    seq: u64,
    record: &AnyRecord,
) -> rusqlite::Result<()> {
    RecordKeys::of(record).note(transaction, seq.cast_signed())
}

/// True if a record rests, or has to wait behind a resting one.
pub(crate) fn rests(connection: &Connection, record: &AnyRecord) -> rusqlite::Result<bool> {
    let any = |sql| move |key: i64| connection.prepare_cached(sql)?.exists([key]);
    let by = "SELECT 1 FROM resting WHERE key = ?";
    let by_group = "SELECT 1 FROM resting WHERE group_key = ?";
    RecordKeys::of(record).is_behind(any(by), any(by_group))
}

pub(crate) fn cause_of(why: &str) -> i64 {
    first_8_bytes(Sha256::new().chain_update(why))
}

/// Finds the records of a message: the first 8 bytes of the SHA-256 of topic, a zero byte, and stored id. A collision costs
/// a needless lookup, nothing else.
fn key_of(topic: &Topic, target: &Target) -> i64 {
    first_8_bytes(Sha256::new().chain_update(topic.as_str()).chain_update([0]).chain_update(target.stored()))
}

/// Finds the records of a group, as [`key_of`] finds the records of a message. A collision costs a needless wait, nothing
/// else.
fn key_of_group(group: &Group) -> i64 {
    first_8_bytes(Sha256::new().chain_update(group.as_str()))
}

fn first_8_bytes(hash: Sha256) -> i64 {
    hash.finalize().iter().take(8).fold(0, |key, &byte| key << 8 | i64::from(byte))
}
