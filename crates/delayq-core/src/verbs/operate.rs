//! `operate`: acting on messages that are still as they were seen.

use super::cancel::finished;
use crate::call::Call;
use crate::envelope::{Envelope, State};
use crate::id::Topic;
use crate::message::Due;
use crate::record::RecordId;
use crate::reply::{Reply, ReplyError, Value, Words};
use crate::script::Verb;
use crate::shard::ShardId;
use crate::target::Target;
use crate::time::{Shift, UnixMillis};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Distinguishes each stay of a message in one place from every other: no message is moved without a new tag. The text form
/// is the gen and the due time in ms, `4711-1800000000000`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// The gen.
    pub generation: u32,
    /// The due time.
    pub due: UnixMillis,
}

/// What is done with messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Cancels messages.
    Cancel,
    /// Makes delayed messages ready now.
    Promote,
    /// Moves pending messages to this time, or this long from now.
    Reschedule(Due),
    /// Moves each pending message by this difference.
    Shift(Shift),
    /// Makes dead letters ready again after this delay.
    Replay(Duration),
    /// Moves pending messages to the dead letters, for this reason.
    Bury(String),
}

/// The outcome of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acted {
    /// Cancelled, and never delivered.
    Cancelled,
    /// Moved to the dead letters.
    Buried,
    /// Pending with this due time.
    Moved {
        /// The due time.
        due: UnixMillis,
        /// True if already ready.
        ready: bool,
    },
    /// Cancelled while a consumer holds the message, whose attempt may still deliver it; no further attempt follows.
    Leased,
    /// Not as it was seen: in this state, with this tag. Nothing was changed.
    Changed(State, Tag),
    /// As it was seen, in a state that the action is not for. Nothing was changed.
    Kept(State),
    /// Already finished, with this outcome and at this time.
    Finished(State, UnixMillis),
    /// Unknown: never put, put in another group, or forgotten.
    Unknown,
    /// Would have expired by the new due time, or that time is out of range. Nothing was changed.
    Refused(String),
    /// The script failed, for this reason: a stored key or message is faulty.
    Failed(String),
}

// === impl Tag ===

impl Tag {
    /// The tag of a stored message.
    pub fn of(envelope: &Envelope) -> Self {
        Self { generation: envelope.generation, due: envelope.due }
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.generation, self.due)
    }
}

impl FromStr for Tag {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let (generation, due) = text.split_once('-')?;
            Some(Self { generation: generation.parse().ok()?, due: UnixMillis::new(due.parse().ok()?) })
        };
        parse().ok_or("not the tag of a message: a gen and a due time in ms, such as 4711-1800000000000")
    }
}

// === impl Action ===

impl Action {
    /// The word of the action.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Promote => "promote",
            Self::Reschedule(_) | Self::Shift(_) => "reschedule",
            Self::Replay(_) => "replay",
            Self::Bury(_) => "bury",
        }
    }

    fn argument(&self) -> String {
        let word = self.word();
        match self {
            Self::Cancel | Self::Promote => word.to_owned(),
            Self::Reschedule(due) => format!("{word} {}", due.argument()),
            Self::Shift(by) => format!("{word} by {:+}", by.millis()),
            Self::Replay(delay) => format!("{word} {}", delay.as_millis()),
            Self::Bury(reason) => format!("{word} {reason}"),
        }
    }
}

// === impl Acted ===

impl Acted {
    /// The word of the outcome.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Cancelled => "cancelled",
            Self::Buried => "buried",
            Self::Moved { ready: true, .. } => "ready",
            Self::Moved { ready: false, .. } => "delayed",
            Self::Leased => "leased",
            Self::Changed(..) => "changed",
            Self::Kept(State::Dead) => "dead",
            Self::Kept(_) => "kept",
            Self::Finished(..) => "finished",
            Self::Unknown => "unknown",
            Self::Refused(_) => "refused",
            Self::Failed(_) => "failed",
        }
    }
}

/// Acts on messages of one topic in one shard, at most 500, each as it was seen. A call with a record is carried out once:
/// later calls with this record get its first answers, and change nothing; without messages, a call only asks for them.
pub fn request<'t>(
    shard: ShardId,
    topic: &Topic,
    record: Option<RecordId>,
    action: &Action,
    items: impl IntoIterator<Item = (&'t Target, Tag)>,
) -> Call {
    let record = record.map(|record| record.to_string()).unwrap_or_default();
    let mut call = Call::new(Verb::Operate, shard).arg(topic.as_bytes()).arg(record).arg(action.argument());
    for (target, tag) in items {
        call.push(target.stored());
        call.push_number(tag.generation);
        call.push_number(tag.due.get());
    }
    call
}

/// Reads the outcomes, and whether they are those of an earlier call with the same record.
pub fn read(reply: Value) -> Result<(bool, Vec<Acted>), ReplyError> {
    let mut reply = Reply::new(Verb::Operate, reply)?;
    let before = reply.number()? == 1;
    let mut outcomes = Vec::new();
    while !reply.is_empty() {
        let text = reply.text()?;
        outcomes.push(outcome(&text).ok_or_else(|| reply.nonsense(&text))?);
    }
    Ok((before, outcomes))
}

fn outcome(text: &str) -> Option<Acted> {
    let mut words = Words::new(text);
    Some(match words.word() {
        "cancelled" => Acted::Cancelled,
        "buried" => Acted::Buried,
        word @ ("ready" | "delayed") => {
            Acted::Moved { due: UnixMillis::new(words.number()?), ready: word == "ready" }
        }
        "leased" => Acted::Leased,
        "changed" => {
            let state = State::from_word(words.word())?;
            let (generation, due) = (words.number()?, UnixMillis::new(words.number()?));
            Acted::Changed(state, Tag { generation, due })
        }
        "kept" => Acted::Kept(State::from_word(words.word())?),
        "dead" => Acted::Kept(State::Dead),
        "finished" => {
            let (state, at) = finished(&mut words)?;
            Acted::Finished(state, at)
        }
        "unknown" => Acted::Unknown,
        "refused" => Acted::Refused(words.rest().to_owned()),
        "failed" => Acted::Failed(words.rest().to_owned()),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_read_back_and_what_is_none_is_refused() {
        let tag = Tag { generation: u32::MAX, due: UnixMillis::new(1_800_000_000_000) };
        assert_eq!(tag.to_string(), "4294967295-1800000000000");
        assert_eq!(tag.to_string().parse(), Ok(tag));
        for bad in ["", "1", "-1", "1-", "4294967296-1", "1-x", "a-1"] {
            assert!(bad.parse::<Tag>().is_err(), "{bad}");
        }
    }
}
