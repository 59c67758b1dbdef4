//! `cancel_group`, `shift_group`: changing all pending messages of a group, step by step.

use super::cursor::Cursor;
use crate::call::Call;
use crate::members::Members;
use crate::reply::{Reply, ReplyError, Value};
use crate::script::Verb;
use crate::shard::ShardId;
use crate::time::Shift;

/// A step of cancelling a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CancelStep {
    /// The start of the next step; `None`: finished.
    pub next: Option<Cursor>,
    /// Messages that will not be delivered.
    pub cancelled: u64,
    /// Leased messages, which will not be tried again.
    pub leased: u64,
    /// Messages that could not be cancelled.
    pub failed: u64,
}

/// A step of shifting a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShiftStep {
    /// More steps remain.
    More {
        /// Moved messages.
        moved: u64,
        /// Messages not moved, because they are leased or the new time would be out of range.
        passed: u64,
    },
    /// Finished.
    Done {
        /// Moved messages.
        moved: u64,
        /// Messages not moved, because they are leased or the new time would be out of range.
        passed: u64,
    },
    /// Another shift of this group is in progress.
    Busy,
}

/// A step of cancelling a group: visits at most `limit` messages.
pub fn cancel(shard: ShardId, members: &Members, from: &Cursor, limit: u16) -> Call {
    let call = Call::new(Verb::CancelGroup, shard).arg(members.group.as_str()).arg(members.topic_word());
    call.cursor(from).number(limit)
}

/// Reads the result of the step.
pub fn read_cancel(reply: Value) -> Result<CancelStep, ReplyError> {
    let mut reply = Reply::new(Verb::CancelGroup, reply)?;
    Ok(CancelStep {
        next: Cursor::read(&mut reply)?,
        cancelled: reply.number()?,
        leased: reply.number()?,
        failed: reply.number()?,
    })
}

/// A step of shifting a group: visits at most `limit` messages, and moves each only once under the same token.
pub fn shift(shard: ShardId, members: &Members, (token, by): (&str, Shift), limit: u16) -> Call {
    let call = Call::new(Verb::ShiftGroup, shard).arg(members.group.as_str()).arg(members.topic_word());
    call.arg(token).arg(by.millis().to_string()).number(limit)
}

/// Reads the result of the step.
pub fn read_shift(reply: Value) -> Result<ShiftStep, ReplyError> {
    let mut reply = Reply::new(Verb::ShiftGroup, reply)?;
    let word = reply.text()?;
    let (moved, passed) = (reply.number()?, reply.number()?);
    match word.as_str() {
        "more" => Ok(ShiftStep::More { moved, passed }),
        "done" => Ok(ShiftStep::Done { moved, passed }),
        "busy" => Ok(ShiftStep::Busy),
        _ => Err(reply.nonsense(&word)),
    }
}
