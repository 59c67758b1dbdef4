//! A producer's view of a spool: writes that could not reach Redis, waiting to be resubmitted.
//!
//! **A delay stays a delay.** The record keeps the time of the first try, and the remaining delay is computed at the
//! resubmit by the same host's clock; Redis then adds the remainder to its own clock. So the difference between the two
//! clocks does not matter: a due time made absolute by a clock behind Redis's would be early by the difference. If this
//! host's clock is set while the record waits, its times are corrected by the time since boot; across a
//! boot, by Redis's clock, which the compensator notes. Without such a note, a clock set across a boot cannot be detected:
//! set back, the message is late; set forward, early by as much.

use crate::fate::Fate;
use crate::id::{Group, MessageId, Topic};
use crate::members::Members;
use crate::message::{Due, Message};
use crate::target::Target;
use crate::time::{Shift, UnixMillis};
use crate::verbs::reschedule::Reschedule;
use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;

/// The fallback for a producer's writes that cannot reach Redis. The spool of `delayq-spool` is a database on this
/// host's disk.
///
/// # Contract
/// - A record answered with `Ok` survives the process and is resubmitted later.
/// - Records of one message are resubmitted in the order in which they were appended.
/// - While a record of a message waits, every writer of the spool appends later writes of that message after it. The
///   same holds while a change of the message's group waits; a change of a group is appended after every record of its
///   messages.
/// - A refused record refuses later records of its message in the same call, which must not overtake it.
pub trait Spool: Debug + Send + Sync {
    /// Appends records; answers for each, in order, once durable. A refused record does not stop records of other
    /// messages.
    fn append(&self, records: Vec<SpoolRecord>) -> Spooling<'_, Vec<Taken<()>>>;

    /// False only if no process's records wait here. Asked before every write, so about as fast as a read from a cached
    /// file.
    fn may_hold(&self) -> bool;

    /// Appends the records that must not overtake a waiting record, and reports for each whether it was appended, in
    /// order. The other records are free to proceed: resubmitted writes are in Redis.
    fn append_behind(&self, records: Vec<SpoolRecord>) -> Spooling<'_, Vec<Taken<bool>>>;

    /// Appends a change of a whole group: always, or only if records wait that the change must not overtake. Reports
    /// whether it was appended, once durable.
    fn append_group(&self, record: GroupRecord, only_behind: bool) -> Spooling<'_, Taken<bool>>;
}

/// The pending answer of a spool.
pub type Spooling<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A spool's answer for one record.
pub type Taken<T> = Result<T, SpoolRefusal>;

/// The refusal of a record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct SpoolRefusal {
    /// Whether the records may have been appended all the same.
    pub fate: Fate,
    /// The reason.
    pub why: String,
}

/// A write that could not reach Redis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpoolRecord {
    /// The message's topic.
    pub topic: Topic,
    /// The message.
    pub target: Target,
    /// Time of the first try, on this host's clock.
    pub tried_at: UnixMillis,
    /// Whether the first try may have been applied.
    pub fate: Fate,
    /// The operation.
    pub action: SpoolAction,
}

/// A change of a group that could not reach Redis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupRecord {
    /// The group.
    pub group: Group,
    /// The only topic concerned; `None`: all topics.
    pub topic: Option<Topic>,
    /// Time of the first try, on this host's clock.
    pub tried_at: UnixMillis,
    /// Whether the first try may have changed some of the messages.
    pub fate: Fate,
    /// The change.
    pub change: GroupChange,
}

/// A change of the pending messages of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupChange {
    /// Cancels the messages.
    Cancel,
    /// Shifts the due times.
    Shift {
        /// The difference.
        by: Shift,
        /// The token under which a repeat continues.
        token: String,
    },
}

/// A record in a spool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnyRecord {
    /// A write of a message.
    Message(SpoolRecord),
    /// A change of a whole group.
    Group(GroupRecord),
}

/// The operation of a spooled write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpoolAction {
    /// Puts this message.
    Put(Arc<Message>),
    /// Cancels the message.
    Cancel,
    /// Changes the due time.
    Reschedule(Reschedule),
}

/// The call to repeat, with delays that count from now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resubmit {
    /// `Producer::put`.
    Put(Message),
    /// `Producer::cancel`.
    Cancel(Topic, Target),
    /// `Producer::reschedule`.
    Reschedule(Topic, Target, Reschedule),
}

// === impl SpoolRecord ===

impl SpoolRecord {
    /// Records a put; `fate` and `tried` (this host's clock) describe its first try.
    ///
    /// # Panics
    /// The message has no id, which identifies repeats.
    pub fn put(message: &Message, fate: Fate, tried: UnixMillis) -> Self {
        Self::shared_put(Arc::new(message.clone()), fate, tried)
    }

    /// As [`Self::put`], without a copy of the message.
    ///
    /// # Panics
    /// The message has no id.
    pub fn shared_put(message: Arc<Message>, fate: Fate, tried: UnixMillis) -> Self {
        let id = message.id.clone().expect("a message has its id before it is spooled");
        Self {
            topic: message.topic.clone(),
            target: Target { id, group: message.group.clone() },
            tried_at: tried,
            fate,
            action: SpoolAction::Put(message),
        }
    }

    /// Records a cancel, to be applied after earlier records of its id.
    pub fn cancel(topic: &Topic, target: &Target, tried: UnixMillis) -> Self {
        Self {
            topic: topic.clone(),
            target: target.clone(),
            tried_at: tried,
            fate: Fate::NotApplied,
            action: SpoolAction::Cancel,
        }
    }

    /// Records a reschedule, to be applied after earlier records of its id.
    pub fn reschedule(topic: &Topic, target: &Target, change: Reschedule, tried: UnixMillis) -> Self {
        Self { action: SpoolAction::Reschedule(change), ..Self::cancel(topic, target, tried) }
    }

    /// The same write, marked as never tried.
    #[must_use]
    pub fn never_tried(mut self) -> Self {
        self.fate = Fate::NotApplied;
        if let SpoolAction::Put(message) = &mut self.action {
            Arc::make_mut(message).tried = None;
        }
        self
    }

    /// True if the write may belong to any group, because it names none and its id does not tell: a put names its
    /// group, and an own id in a group is found only by both.
    pub fn is_of_any_group(&self) -> bool {
        let Target { id, group } = &self.target;
        let is_put = matches!(self.action, SpoolAction::Put(_));
        !is_put && group.is_none() && matches!(id, MessageId::Generated(_))
    }

    /// The verb: `put`, `cancel` or `reschedule`.
    pub fn verb(&self) -> &'static str {
        match self.action {
            SpoolAction::Put(_) => "put",
            SpoolAction::Cancel => "cancel",
            SpoolAction::Reschedule(_) => "reschedule",
        }
    }

    /// The call to make at `now` (this host's clock); `tried` is the time of the first try of unknown fate since
    /// spooling.
    pub fn resubmit(&self, now: UnixMillis, tried: Option<UnixMillis>) -> Resubmit {
        let gone = now.since(self.tried_at);
        let left = |due: Due| match due {
            Due::At(due) => Due::At(due),
            Due::After(delay) => Due::After(delay.saturating_sub(gone)),
        };
        match &self.action {
            SpoolAction::Cancel => Resubmit::Cancel(self.topic.clone(), self.target.clone()),
            SpoolAction::Reschedule(change) => {
                let change = match *change {
                    Reschedule::To(due) => Reschedule::To(left(due)),
                    Reschedule::ToIfDue(due, expected) => Reschedule::ToIfDue(left(due), expected),
                    by @ Reschedule::By(..) => by,
                };
                Resubmit::Reschedule(self.topic.clone(), self.target.clone(), change)
            }
            SpoolAction::Put(message) => {
                let unknown = (self.fate == Fate::Unknown).then_some(self.tried_at);
                let tried = [message.tried, unknown, tried].into_iter().flatten().min();
                // The put has checked the times.
                let due = left(message.due);
                Resubmit::Put(Message { due, tried, any_time: true, ..Message::clone(message) })
            }
        }
    }
}

// === impl GroupRecord ===

impl GroupRecord {
    /// The messages that it changes.
    pub fn members(&self) -> Members {
        Members { group: self.group.clone(), topic: self.topic.clone() }
    }

    /// The verb: `cancel_group` or `shift_group`.
    pub fn verb(&self) -> &'static str {
        match self.change {
            GroupChange::Cancel => "cancel_group",
            GroupChange::Shift { .. } => "shift_group",
        }
    }
}

// === impl AnyRecord ===

impl AnyRecord {
    /// The verb.
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Message(record) => record.verb(),
            Self::Group(record) => record.verb(),
        }
    }

    /// The write of a message; `None` for a group.
    pub fn message(&self) -> Option<&SpoolRecord> {
        match self {
            Self::Message(record) => Some(record),
            Self::Group(_) => None,
        }
    }

    /// The same write, with times corrected for a clock that was set ahead by `ms`, or back if negative.
    #[must_use]
    pub fn clock_set_by(mut self, ms: i64) -> Self {
        match &mut self {
            _ if ms == 0 => {}
            Self::Group(record) => record.tried_at = record.tried_at.set_by(ms),
            Self::Message(record) => {
                record.tried_at = record.tried_at.set_by(ms);
                if let SpoolAction::Put(message) = &mut record.action
                    && message.tried.is_some()
                {
                    let message = Arc::make_mut(message);
                    message.tried = message.tried.map(|tried| tried.set_by(ms));
                }
            }
        }
        self
    }

    /// The same write, marked as never tried.
    #[must_use]
    pub fn never_tried(self) -> Self {
        match self {
            Self::Message(record) => Self::Message(record.never_tried()),
            Self::Group(record) => Self::Group(GroupRecord { fate: Fate::NotApplied, ..record }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn of_a_delay_what_is_left_is_resubmitted() {
        let message =
            Message::new(Topic::new("t").unwrap(), "x").id("a").unwrap().after(Duration::from_secs(30));
        let record = SpoolRecord::put(&message, Fate::Unknown, UnixMillis::new(100_000));
        for (now, left) in [(90_000, 30_000), (100_000, 30_000), (110_000, 20_000), (999_000, 0)] {
            let Resubmit::Put(message) = record.resubmit(UnixMillis::new(now), None) else { panic!("a put") };
            assert_eq!(message.due, Due::After(Duration::from_millis(left)), "at {now}");
            assert_eq!(message.tried, Some(UnixMillis::new(100_000)));
        }
    }
}
