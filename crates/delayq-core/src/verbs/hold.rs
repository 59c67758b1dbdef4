//! `hold`: keeping due messages in their buckets while a shard's clock is not trusted.

use crate::call::Call;
use crate::reply::{Reply, ReplyError, Value, Words};
use crate::script::Verb;
use crate::shard::ShardId;

/// The outcome of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldAnswer {
    /// Applied.
    Done,
    /// A newer owner has this epoch.
    Fenced(u64),
}

/// Holds or resumes a shard.
pub fn request(shard: ShardId, epoch: u64, on: bool) -> Call {
    Call::new(Verb::Hold, shard).number(epoch).arg(if on { "on" } else { "off" })
}

/// Reads the outcome.
pub fn read(reply: Value) -> Result<HoldAnswer, ReplyError> {
    let text = Reply::text_of(Verb::Hold, reply)?;
    let mut words = Words::new(&text);
    match (words.word(), words.number()) {
        ("held" | "free", _) => Ok(HoldAnswer::Done),
        ("fenced", Some(epoch)) => Ok(HoldAnswer::Fenced(epoch)),
        _ => Err(ReplyError::new(Verb::Hold, &text)),
    }
}
