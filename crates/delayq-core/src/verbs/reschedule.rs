//! `reschedule`: changing the due time of pending messages.

use super::cancel::finished;
use super::words;
use crate::call::Call;
use crate::envelope::State;
use crate::id::Topic;
use crate::message::Due;
use crate::record::{self, RecordId};
use crate::reply::{Reply, ReplyError, Value, Words};
use crate::script::Verb;
use crate::shard::ShardId;
use crate::target::Target;
use crate::time::{OddTime, Shift, UnixMillis};

/// A change of a due time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reschedule {
    /// To this time, or this long from now.
    To(Due),
    /// To this time, or this long from now, if the current due time equals the given one (ms on Redis's clock).
    ToIfDue(Due, UnixMillis),
    /// By this difference from the expected due time; unchanged if due at another time. So a repeat moves nothing
    /// twice.
    By(Shift, UnixMillis),
}

/// The outcome of a reschedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RescheduleOutcome {
    /// Moved.
    Moved {
        /// The previous due time.
        old: UnixMillis,
        /// The new due time.
        due: UnixMillis,
        /// True if already ready.
        ready: bool,
    },
    /// Due at this time instead of the expected one. Nothing was changed.
    Changed(UnixMillis),
    /// Held by a consumer.
    Leased,
    /// A dead letter.
    Dead,
    /// Already finished, with this outcome and at this time.
    Finished(State, UnixMillis),
    /// Unknown: never put, put in another group, or forgotten.
    Unknown,
    /// Redis could not be reached, or the put itself waits in the spool: the change is spooled after it.
    Spooled,
    /// Invalid: not a due time, or not before the expiry. Nothing was changed.
    Refused(String),
    /// The script failed, for this reason: a stored key or message is faulty.
    Failed(String),
}

// === impl Reschedule ===

impl Reschedule {
    /// Refuses a new due time that is most likely in seconds or microseconds.
    ///
    /// # Errors
    /// As [`UnixMillis::check`].
    pub fn check(self) -> Result<(), OddTime> {
        match self {
            Self::To(due) | Self::ToIfDue(due, _) => due.check(),
            Self::By(..) => Ok(()),
        }
    }

    /// The arguments of `reschedule`: the due time, and the expected due time.
    fn arguments(self) -> (String, String) {
        match self {
            Self::To(due) => (due.argument(), String::new()),
            Self::ToIfDue(due, expected) => (due.argument(), expected.to_string()),
            Self::By(by, expected) => (format!("by {:+}", by.millis()), expected.to_string()),
        }
    }
}

// === impl RescheduleOutcome ===

impl RescheduleOutcome {
    /// True if the message has the requested due time.
    pub fn is_accepted(&self) -> bool {
        words::is_accepted(self.word())
    }

    /// The word of the outcome.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Moved { ready: true, .. } => "ready",
            Self::Moved { ready: false, .. } => "delayed",
            Self::Changed(_) => "changed",
            Self::Leased => "leased",
            Self::Dead => "dead",
            Self::Finished(..) => "finished",
            Self::Unknown => "unknown",
            Self::Spooled => "spooled",
            Self::Refused(_) => "refused",
            Self::Failed(_) => "failed",
        }
    }
}

/// Reschedules messages of one topic in one shard (at most 500), each with the record of the write, if any.
pub fn request<'t>(
    shard: ShardId,
    topic: &Topic,
    changes: impl IntoIterator<Item = (&'t Target, Option<RecordId>, Reschedule)>,
) -> Call {
    let mut call = Call::new(Verb::Reschedule, shard).arg(topic.as_bytes());
    for (target, record, change) in changes {
        let (due, expected) = change.arguments();
        record::push(&mut call, target, record);
        call.push(due);
        call.push(expected);
    }
    call
}

/// Reads the outcome for each of `count` messages.
pub fn read(reply: Value, count: usize) -> Result<Vec<RescheduleOutcome>, ReplyError> {
    let mut reply = Reply::new(Verb::Reschedule, reply)?;
    (0..count).map(|_| outcome(&mut reply)).collect()
}

fn outcome(reply: &mut Reply) -> Result<RescheduleOutcome, ReplyError> {
    let text = reply.text()?;
    let mut words = Words::new(&text);
    Ok(match words.word() {
        word @ ("delayed" | "ready") => {
            let (Some(old), Some(due)) = (words.number(), words.number()) else {
                return Err(reply.nonsense(&text));
            };
            RescheduleOutcome::Moved {
                old: UnixMillis::new(old),
                due: UnixMillis::new(due),
                ready: word == "ready",
            }
        }
        "changed" => RescheduleOutcome::Changed(UnixMillis::new(words.number().unwrap_or(0))),
        "leased" => RescheduleOutcome::Leased,
        "dead" => RescheduleOutcome::Dead,
        "unknown" => RescheduleOutcome::Unknown,
        "refused" => RescheduleOutcome::Refused(words.rest().to_owned()),
        "failed" => RescheduleOutcome::Failed(words.rest().to_owned()),
        "finished" => {
            let (state, at) = finished(&mut words).ok_or_else(|| reply.nonsense(&text))?;
            RescheduleOutcome::Finished(state, at)
        }
        _ => return Err(reply.nonsense(&text)),
    })
}
