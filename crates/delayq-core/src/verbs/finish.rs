//! `finish`: ending messages by id in any state, for callers that hold no receipt.

use super::cancel::finished;
use crate::call::Call;
use crate::envelope::State;
use crate::id::Topic;
use crate::reply::{Reply, ReplyError, Value, Words};
use crate::script::Verb;
use crate::shard::ShardId;
use crate::target::Target;
use crate::time::UnixMillis;

/// The messages that a finish ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishWhich {
    /// In any state.
    Any,
    /// Dead letters alone.
    Dead,
}

/// The outcome of a finish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FinishOutcome {
    /// Was pending, and is never delivered.
    Cancelled,
    /// Was leased: counts as delivered, and its receipt settles nothing any more.
    Delivered,
    /// Was a dead letter, and is deleted.
    Purged,
    /// Not a dead letter, and only those were to end: unchanged.
    Kept(State),
    /// Already finished, with this outcome and at this time.
    Finished(State, UnixMillis),
    /// Unknown: never put, or forgotten.
    Unknown,
    /// The script failed, for this reason.
    Failed(String),
}

// === impl FinishWhich ===

impl FinishWhich {
    const fn word(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::Dead => "dead",
        }
    }
}

/// Ends messages of one topic in one shard: at most 500.
pub fn request<'t>(
    shard: ShardId,
    topic: &Topic,
    which: FinishWhich,
    targets: impl IntoIterator<Item = &'t Target>,
) -> Call {
    let mut call = Call::new(Verb::Finish, shard).arg(topic.as_bytes()).arg(which.word());
    targets.into_iter().for_each(|target| call.push(target.stored()));
    call
}

/// Reads the outcome for each of `count` messages.
pub fn read(reply: Value, count: usize) -> Result<Vec<FinishOutcome>, ReplyError> {
    let mut reply = Reply::new(Verb::Finish, reply)?;
    (0..count).map(|_| outcome(&mut reply)).collect()
}

fn outcome(reply: &mut Reply) -> Result<FinishOutcome, ReplyError> {
    let text = reply.text()?;
    let mut words = Words::new(&text);
    let outcome = match words.word() {
        "cancelled" => Some(FinishOutcome::Cancelled),
        "delivered" => Some(FinishOutcome::Delivered),
        "purged" => Some(FinishOutcome::Purged),
        "kept" => State::from_word(words.word()).map(FinishOutcome::Kept),
        "unknown" => Some(FinishOutcome::Unknown),
        "failed" => Some(FinishOutcome::Failed(words.rest().to_owned())),
        "finished" => finished(&mut words).map(|(state, at)| FinishOutcome::Finished(state, at)),
        _ => None,
    };
    outcome.ok_or_else(|| reply.nonsense(&text))
}
