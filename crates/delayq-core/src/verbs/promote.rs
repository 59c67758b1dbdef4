//! `promote`: making delayed messages ready now, step by step.

use super::cursor::Cursor;
use crate::call::Call;
use crate::id::Topic;
use crate::members::Members;
use crate::reply::{ReplyError, Value};
use crate::script::Verb;
use crate::shard::ShardId;
use crate::time::UnixMillis;

/// The delayed messages to choose from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Promotable {
    /// All of a topic.
    Topic(Topic),
    /// The members of a group.
    Members(Members),
}

/// The outcome of a promotion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Promoted {
    /// Number of messages that are ready now.
    pub promoted: u64,
    /// Number of messages not promoted, because of a newer format or a key of the wrong type.
    pub kept: u64,
}

// === impl Promoted ===

impl Promoted {
    /// Adds the counts of another step.
    pub const fn add(&mut self, other: Self) {
        self.promoted += other.promoted;
        self.kept += other.kept;
    }
}

/// One step through messages due up to this time: at most `limit` (1 to 500), in the order of their due times.
pub fn request(shard: ShardId, which: &Promotable, to: UnixMillis, from: &Cursor, limit: u64) -> Call {
    let (topic, group) = match which {
        Promotable::Topic(topic) => (topic.as_bytes().into_owned(), ""),
        Promotable::Members(members) => (members.topic_word(), members.group.as_str()),
    };
    let call = Call::new(Verb::Promote, shard).arg(topic).arg(group).cursor_time(from);
    call.number(to.get()).cursor_entry(from).number(limit)
}

/// Reads the counts of the step, and the start of the next; `None` after the last.
pub fn read(reply: Value) -> Result<(Promoted, Option<Cursor>), ReplyError> {
    let ([promoted, kept], next) = Cursor::read_step(Verb::Promote, reply)?;
    Ok((Promoted { promoted, kept }, next))
}

// === impl Promotable ===

impl From<&Topic> for Promotable {
    fn from(topic: &Topic) -> Self {
        Self::Topic(topic.clone())
    }
}

impl From<&Members> for Promotable {
    fn from(members: &Members) -> Self {
        Self::Members(members.clone())
    }
}
