//! `histogram`: number of due messages of a topic, by intervals.

use crate::call::Call;
use crate::id::Topic;
use crate::reply::{Reply, ReplyError, Value};
use crate::script::Verb;
use crate::shard::ShardId;
use crate::time::UnixMillis;
use serde::Serialize;
use std::time::Duration;

/// Number of messages due in an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Slot {
    /// Start of the interval.
    pub start: UnixMillis,
    /// Number of messages.
    pub count: u64,
}

/// A page of the histogram of one shard, over a range in intervals of this width.
pub fn request(shard: ShardId, topic: &Topic, (from, to): (UnixMillis, UnixMillis), width: Duration) -> Call {
    let call = Call::new(Verb::Histogram, shard).arg(topic.as_bytes());
    call.number(from.get()).number(to.get()).number(width.as_millis() as u64)
}

/// Reads the page, and the start of the next; `None` after the last.
pub fn read(reply: Value) -> Result<(Vec<Slot>, Option<UnixMillis>), ReplyError> {
    let mut reply = Reply::new(Verb::Histogram, reply)?;
    let next = reply.maybe_number()?.map(UnixMillis::new);
    let mut slots = Vec::new();
    while !reply.is_empty() {
        slots.push(Slot { start: UnixMillis::new(reply.number()?), count: reply.number()? });
    }
    Ok((slots, next))
}
