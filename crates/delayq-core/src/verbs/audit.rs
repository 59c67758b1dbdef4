//! `audit`, `audit_index`: finding messages that no entry leads to, and entries that lead to no message.

use crate::call::Call;
use crate::envelope;
use crate::reply::{Reply, ReplyError, Value};
use crate::script::Verb;
use crate::shard::ShardId;

const HOUR_MS: u64 = 3_600_000;

/// A finding as a script names it: its kind, and the message's or the entry's name.
pub type Named = (String, Vec<u8>);

/// An index, by its key without the base, and where to go on in it: the score and the member of the entry that was looked at
/// last, both empty at first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexAt {
    /// Which.
    pub index: Vec<u8>,
    /// Where, as a score.
    pub score: Vec<u8>,
    /// Where, as a member.
    pub member: Vec<u8>,
    /// Whether its entries are looked at too, or itself alone.
    pub entries: bool,
}

/// What a look at messages found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessagesReport {
    /// What is wrong.
    pub findings: Vec<Named>,
}

/// What a step over indexes found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexesReport {
    /// How many indexes were checked to their end.
    pub done: usize,
    /// Where to go on in the next one.
    pub at: (Vec<u8>, Vec<u8>),
    /// How many entries were looked at.
    pub entries: u64,
    /// Each with the index it is about.
    pub findings: Vec<(Vec<u8>, Named)>,
}

/// Where a delayed message is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketPlace {
    /// The key of its bucket without the base.
    pub bucket: Vec<u8>,
    /// Its entry there.
    pub entry: Vec<u8>,
    /// Whether no other index has it.
    pub is_alone: bool,
}

// === impl IndexAt ===

impl IndexAt {
    /// The index from its beginning, with its entries.
    #[must_use]
    pub const fn first(index: Vec<u8>) -> Self {
        Self { index, score: Vec::new(), member: Vec::new(), entries: true }
    }
}

/// The place of a message that is delayed, by its key without the base and the first [`envelope::HEAD_BYTES`] of its value.
/// `None` of any message that is not pending.
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

/// The findings about the messages.
///
/// # Errors
/// The script does not give such an answer.
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

/// The findings about the indexes, and how far it came.
///
/// # Errors
/// The script does not give such an answer.
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
        let plain = Message::new(Topic::new("t").unwrap(), "x").envelope(b"x".to_vec(), false);
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
