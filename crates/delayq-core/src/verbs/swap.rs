//! `swap`: replacing a note that several processes share, if it is still the expected version.

use crate::call::Call;
use crate::reply::{Reply, ReplyError, Value};
use crate::script::Verb;
use crate::shard::ShardId;
use crate::time::UnixMillis;

/// A note, as of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoteVersion {
    /// True if the call replaced or deleted the note.
    pub swapped: bool,
    /// The time on the clock of Redis.
    pub now: UnixMillis,
    /// The version; 0: there is no such note.
    pub version: u64,
    /// The text.
    pub text: String,
}

/// Replaces the note `name` if its version is `expected`: 0 if there must be no note. An empty text deletes the note.
pub fn request(shard: ShardId, name: &str, expected: u64, text: &str) -> Call {
    Call::new(Verb::Swap, shard).arg(name).number(expected).arg(text)
}

/// Reads the note.
pub fn read(reply: Value) -> Result<NoteVersion, ReplyError> {
    let mut reply = Reply::new(Verb::Swap, reply)?;
    let swapped = match reply.text()?.as_str() {
        "swapped" => true,
        "kept" => false,
        other => return Err(reply.nonsense(other)),
    };
    let now = UnixMillis::new(reply.number()? / 1000);
    Ok(NoteVersion { swapped, now, version: reply.number()?, text: reply.text()? })
}
