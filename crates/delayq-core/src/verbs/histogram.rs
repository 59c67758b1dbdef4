//! `histogram`: how many messages of a topic become due, by intervals.

use crate::call::Call;
use crate::id::Topic;
use crate::reply::{Reply, ReplyError, Value};
use crate::script::Verb;
use crate::shard::ShardId;
use crate::time::UnixMillis;
use serde::Serialize;
use std::time::Duration;

/// How many messages become due in an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Slot {
    /// Where the interval begins.
    pub start: UnixMillis,
    /// How many.
    pub count: u64,
}

/// One page of the histogram of one shard, over a range in intervals of this width.
pub fn request(shard: ShardId, topic: &Topic, (from, to): (UnixMillis, UnixMillis), width: Duration) -> Call {
    let call = Call::new(Verb::Histogram, shard).arg(topic.as_bytes());
    call.number(from.get()).number(to.get()).number(width.as_millis() as u64)
}

/// The page, and where the next one begins; `None`: this was the last.
///
/// # Errors
/// The script does not give such an answer.
pub fn read(reply: Value) -> Result<(Vec<Slot>, Option<UnixMillis>), ReplyError> {
    let mut reply = Reply::new(Verb::Histogram, reply)?;
    let next = reply.maybe_number()?.map(UnixMillis::new);
    let mut slots = Vec::new();
    while !reply.is_empty() {
        slots.push(Slot { start: UnixMillis::new(reply.number()?), count: reply.number()? });
    }
    Ok((slots, next))
}
