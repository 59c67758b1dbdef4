//! `cancel`.

use super::words;
use crate::call::Call;
use crate::envelope::State;
use crate::id::Topic;
use crate::record::{self, RecordId};
use crate::reply::{Reply, ReplyError, Value, Words};
use crate::script::Verb;
use crate::shard::ShardId;
use crate::target::Target;
use crate::time::UnixMillis;

/// The outcome of a cancel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CancelOutcome {
    /// Never delivered; also the answer to a repeated cancel.
    Cancelled,
    /// Held by a consumer, whose attempt may still deliver the message; no further attempt follows.
    Leased,
    /// A dead letter.
    Dead,
    /// Already finished, with this outcome and at this time.
    Finished(State, UnixMillis),
    /// Unknown: never put, put in another group, or forgotten.
    Unknown,
    /// Redis could not be reached, or the put itself waits in the spool: the cancel is spooled after it.
    Spooled,
    /// The script failed, for this reason.
    Failed(String),
}

// === impl CancelOutcome ===

impl CancelOutcome {
    /// True if the message is cancelled and will not be delivered. False for another finish, or while a consumer holds
    /// the message.
    pub fn is_accepted(&self) -> bool {
        words::is_accepted(self.word())
    }

    /// The word of the outcome.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Cancelled => "cancelled",
            Self::Leased => "leased",
            Self::Dead => "dead",
            Self::Finished(..) => "finished",
            Self::Unknown => "unknown",
            Self::Spooled => "spooled",
            Self::Failed(_) => "failed",
        }
    }
}

/// Cancels messages of one topic in one shard (at most 500), each with the record of the write, if any.
pub fn request<'t>(
    shard: ShardId,
    topic: &Topic,
    items: impl IntoIterator<Item = (&'t Target, Option<RecordId>)>,
) -> Call {
    let mut call = Call::new(Verb::Cancel, shard).arg(topic.as_bytes());
    items.into_iter().for_each(|(target, record)| record::push(&mut call, target, record));
    call
}

/// Reads the outcome for each of `count` messages.
pub fn read(reply: Value, count: usize) -> Result<Vec<CancelOutcome>, ReplyError> {
    let mut reply = Reply::new(Verb::Cancel, reply)?;
    (0..count).map(|_| outcome(&mut reply)).collect()
}

fn outcome(reply: &mut Reply) -> Result<CancelOutcome, ReplyError> {
    let text = reply.text()?;
    let mut words = Words::new(&text);
    Ok(match words.word() {
        "cancelled" => CancelOutcome::Cancelled,
        "leased" => CancelOutcome::Leased,
        "dead" => CancelOutcome::Dead,
        "unknown" => CancelOutcome::Unknown,
        "failed" => CancelOutcome::Failed(words.rest().to_owned()),
        "finished" => {
            let (state, at) = finished(&mut words).ok_or_else(|| reply.nonsense(&text))?;
            CancelOutcome::Finished(state, at)
        }
        _ => return Err(reply.nonsense(&text)),
    })
}

pub(super) fn finished(words: &mut Words<'_>) -> Option<(State, UnixMillis)> {
    Some((State::from_word(words.word())?, UnixMillis::new(words.number()?)))
}
