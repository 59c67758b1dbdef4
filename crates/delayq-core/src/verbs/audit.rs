//! `audit`, `audit_index`: finding messages that no entry leads to, and entries that lead to no message.

use crate::call::Call;
use crate::reply::{Reply, ReplyError, Value};
use crate::script::Verb;
use crate::shard::ShardId;

/// A finding as a script names it: its kind, and the message's or the entry's name.
pub type Named = (String, Vec<u8>);

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
pub fn read_messages(reply: Value) -> Result<Vec<Named>, ReplyError> {
    let mut reply = Reply::new(Verb::Audit, reply)?;
    for _state in 0..5 {
        reply.number()?;
    }
    named(reply)
}

/// Checks an index and these entries of it.
pub fn index(shard: ShardId, index: &[u8], entries: &[Vec<u8>]) -> Call {
    let mut call = Call::new(Verb::AuditIndex, shard).arg(index);
    entries.iter().for_each(|entry| call.push(entry));
    call
}

/// The findings about the index.
///
/// # Errors
/// The script does not give such an answer.
pub fn read_index(reply: Value) -> Result<Vec<Named>, ReplyError> {
    named(Reply::new(Verb::AuditIndex, reply)?)
}

fn named(mut reply: Reply) -> Result<Vec<Named>, ReplyError> {
    let mut all = Vec::new();
    while !reply.is_empty() {
        all.push((reply.text()?, reply.bytes()?));
    }
    Ok(all)
}
