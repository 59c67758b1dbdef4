//! `purge`: deleting a topic's messages.

use super::cursor::Cursor;
use crate::call::Call;
use crate::id::Topic;
use crate::limits::MAX_IDS_A_CALL;
use crate::reply::{ReplyError, Value};
use crate::script::Verb;
use crate::shard::ShardId;
use crate::time::UnixMillis;

/// The outcome of a purge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Purged {
    /// Number of deleted messages.
    pub purged: u64,
    /// Number of messages not deleted, because of a newer format or a key of the wrong type.
    pub kept: u64,
}

// === impl Purged ===

impl Purged {
    /// Adds the counts of another step.
    pub const fn add(&mut self, other: Self) {
        self.purged += other.purged;
        self.kept += other.kept;
    }
}

/// One step through the messages of a topic in this state, up to this time.
pub fn request(shard: ShardId, topic: &Topic, (state, to): (&str, UnixMillis), from: &Cursor) -> Call {
    some(shard, topic, (state, to), from, MAX_IDS_A_CALL)
}

/// As `request`, for at most `limit` messages (1 to 500).
pub fn some(
    shard: ShardId,
    topic: &Topic,
    (state, to): (&str, UnixMillis),
    from: &Cursor,
    limit: usize,
) -> Call {
    let call = Call::new(Verb::Purge, shard).arg(topic.as_bytes()).arg(state).cursor_time(from);
    call.number(to.get()).cursor_entry(from).number(limit as u64)
}

/// Reads the counts of the step, and the start of the next; `None` after the last.
pub fn read(reply: Value) -> Result<(Purged, Option<Cursor>), ReplyError> {
    let ([purged, kept], next) = Cursor::read_step(Verb::Purge, reply)?;
    Ok((Purged { purged, kept }, next))
}
