//! `cancel`.

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
    /// It will not be delivered; also if it was cancelled before.
    Cancelled,
    /// A consumer holds it. That attempt may still deliver it; none follows.
    Leased,
    /// It is a dead letter.
    Dead,
    /// It had already finished, with this outcome and at this time.
    Finished(State, UnixMillis),
    /// It is unknown: never put, put in another group, or forgotten.
    Unknown,
    /// Redis could not be reached, or the put itself waits in the spool: the cancel is in the spool behind it.
    Spooled,
    /// The script failed, for this reason.
    Failed(String),
}

// === impl CancelOutcome ===

impl CancelOutcome {
    /// Whether the message is cancelled: it will not be delivered. Not if it finished otherwise before, or if a consumer holds
    /// it.
    pub const fn is_accepted(&self) -> bool {
        matches!(self, Self::Cancelled)
    }
}

/// Cancels messages of one topic in one shard, each with the record of its write if there is one: at most 500.
pub fn request<'t>(
    shard: ShardId,
    topic: &Topic,
    items: impl IntoIterator<Item = (&'t Target, Option<RecordId>)>,
) -> Call {
    let mut call = Call::new(Verb::Cancel, shard).arg(topic.as_bytes());
    items.into_iter().for_each(|(target, record)| record::push(&mut call, target, record));
    call
}

/// The outcome for each of `count` messages.
///
/// # Errors
/// The script does not give such an answer.
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

/// How and when a message was finished.
pub(super) fn finished(words: &mut Words<'_>) -> Option<(State, UnixMillis)> {
    Some((State::from_word(words.word())?, UnixMillis::new(words.number()?)))
}
