//! `audit`, `audit_index`: finding messages without an entry, and entries without a message.

use crate::call::Call;
use crate::envelope;
use crate::reply::{Reply, ReplyError, Value};
use crate::script::Verb;
use crate::shard::ShardId;

const HOUR_MS: u64 = 3_600_000;

/// A finding: its kind, and the name of the message or entry.
pub type Named = (String, Vec<u8>);

/// An index, by its key without the base, and the position of the audit: score and member of the last checked entry,
/// both empty at first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexAt {
    /// Key of the index without the base.
    pub index: Vec<u8>,
    /// Score of the position.
    pub score: Vec<u8>,
    /// Member of the position.
    pub member: Vec<u8>,
    /// True to check the entries too, false for the index alone.
    pub entries: bool,
}

/// The result of auditing messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessagesReport {
    /// The findings.
    pub findings: Vec<Named>,
}

/// The result of one step over indexes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexesReport {
    /// Number of indexes checked to their end.
    pub done: usize,
    /// The position in the next index.
    pub at: (Vec<u8>, Vec<u8>),
    /// Number of checked entries.
    pub entries: u64,
    /// The findings, each with the index.
    pub findings: Vec<(Vec<u8>, Named)>,
}

/// The place of a delayed message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketPlace {
    /// The key of its bucket without the base.
    pub bucket: Vec<u8>,
    /// The entry in the bucket.
    pub entry: Vec<u8>,
    /// True if no other index holds the message.
    pub is_alone: bool,
}

// === impl IndexAt ===

impl IndexAt {
    /// The start of an index, with its entries.
    #[must_use]
    pub const fn first(index: Vec<u8>) -> Self {
        Self { index, score: Vec::new(), member: Vec::new(), entries: true }
    }
}

/// The place of a delayed message, by its key without the base and the first [`envelope::HEAD_BYTES`] of its value.
/// `None` unless pending.
pub fn place_if_delayed(key: &[u8], head: &[u8]) -> Option<BucketPlace> {
    let (due, generation, is_alone) = envelope::if_delayed(head)?;
    let name = key.strip_prefix(b"m:")?;
    let (number, id) = name.split_at(name.iter().position(|&byte| byte == b':')?);
    let hour = (due.get() / HOUR_MS).to_string();
    let bucket = [b"b:", number, b":", hour.as_bytes()].concat();
    Some(BucketPlace { bucket, entry: [&id[1..], &generation].concat(), is_alone })
}

/// Checks these messages, each named by its key without the base.
pub fn messages<K: AsRef<[u8]>>(shard: ShardId, keys: &[K]) -> Call {
    let mut call = Call::new(Verb::Audit, shard);
    keys.iter().for_each(|key| call.push(key));
    call
}

/// Reads the findings about messages.
pub fn read_messages(reply: Value) -> Result<MessagesReport, ReplyError> {
    let mut reply = Reply::new(Verb::Audit, reply)?;
    for _state in 0..5 {
        reply.number()?;
    }
    let mut report = MessagesReport::default();
    while !reply.is_empty() {
        report.findings.push((reply.text()?, reply.bytes()?));
    }
    Ok(report)
}

/// Checks indexes and up to `limit` (1 to 500) of their entries.
pub fn indexes<'i>(shard: ShardId, limit: usize, indexes: impl IntoIterator<Item = &'i IndexAt>) -> Call {
    let mut call = Call::new(Verb::AuditIndex, shard).number(limit as u64);
    for IndexAt { index, score, member, entries } in indexes {
        [index, score, member].into_iter().for_each(|part| call.push(part));
        call.push(if *entries { "all" } else { "itself" });
    }
    call
}

/// Reads the findings about indexes, and the position.
pub fn read_indexes(reply: Value) -> Result<IndexesReport, ReplyError> {
    let mut reply = Reply::new(Verb::AuditIndex, reply)?;
    let done = usize::try_from(reply.number()?).unwrap_or(usize::MAX);
    let mut report = IndexesReport {
        done,
        at: (reply.bytes()?, reply.bytes()?),
        entries: reply.number()?,
        findings: Vec::new(),
    };
    while !reply.is_empty() {
        report.findings.push((reply.bytes()?, (reply.text()?, reply.bytes()?)));
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envelope::{Envelope, HEAD_BYTES, State};
    use crate::id::{Group, Topic};
    use crate::message::Message;
    use crate::time::UnixMillis;

    #[test]
    fn a_place_is_told_of_a_pending_message_and_whether_it_has_another() {
        let plain = Envelope::of(&Message::new(Topic::new("t").unwrap(), "x"), b"x".to_vec(), false);
        let (state, due) = (State::Delayed, UnixMillis::new(2 * HOUR_MS + 1));
        let delayed = Envelope { state, due, generation: 0x0102_0304, ..plain };
        let place = |envelope: &Envelope| place_if_delayed(b"m:12:a:7", &envelope.encode()[..HEAD_BYTES]);
        let (bucket, entry) = (b"b:12:2".to_vec(), b"a:7\x01\x02\x03\x04".to_vec());
        let alone = BucketPlace { bucket, entry, is_alone: true };
        let indexed = Some(BucketPlace { is_alone: false, ..alone.clone() });
        assert_eq!(place(&delayed), Some(alone));
        assert_eq!(place(&Envelope { state: State::Leased, ..delayed.clone() }), None);
        assert_eq!(place(&Envelope { group: Some(Group::new("g").unwrap()), ..delayed.clone() }), indexed);
        assert_eq!(place(&Envelope { expires: Some(UnixMillis::new(9)), ..delayed }), indexed);
        assert_eq!(place_if_delayed(b"m:12:a:7", b""), None);
    }
}
