//! A producer's view of a spool: the writes that could not reach Redis, and where they wait to be resubmitted.
//!
//! **A delay stays a delay.** It is kept with the time of the first try, and what is left of it is counted when the write
//! is resubmitted, by the same host's clock; Redis then adds that to its own. So it does not matter how far the two
//! clocks are apart: a due time made absolute by a clock that is behind Redis's would be early by the difference. If this
//! host's clock is set while the record waits, its times are corrected by the time since the boot. A clock that was set
//! across a boot cannot be told: set back, the message is late; set forward, it is early by as much.

use crate::fate::Fate;
use crate::id::{Group, MessageId, Topic};
use crate::message::{Due, Message};
use crate::target::Target;
use crate::time::{Shift, UnixMillis};
use crate::verbs::reschedule::Reschedule;
use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;

/// Where a producer's writes go if they cannot reach Redis. That of `delayq-spool` is a database on this host's disk.
///
/// # Contract
/// - What is answered with `Ok` survives the process and is resubmitted later.
/// - Records of one message are resubmitted in the order in which they were appended.
/// - While a record of a message waits, every writer that shares the spool appends its later writes behind it. So it does
///   while a change of its group waits, and a change of a group goes behind every record of one of its messages.
/// - A refused record refuses the later ones of its message in the same call, which must not overtake it.
pub trait Spool: Debug + Send + Sync {
    /// Appends records; answers for each, in order, once they are durable. One that is refused does not stop those of other
    /// messages.
    fn append(&self, records: Vec<SpoolRecord>) -> Spooling<'_, Vec<Taken<()>>>;

    /// Whether a record may wait here, appended by any process: false only if none does. Asked before every write, so it
    /// takes about as long as one read of a file that is in memory.
    fn may_hold(&self) -> bool;

    /// Appends the records that must not overtake one that waits here, and returns for each whether it did, in order. The
    /// others are not held up by anything: what was resubmitted is in Redis.
    fn append_behind(&self, records: Vec<SpoolRecord>) -> Spooling<'_, Vec<Taken<bool>>>;

    /// Appends a change of a whole group: always, or only behind what it must not overtake, if any of that waits here. Says
    /// whether it did, once it is durable.
    fn append_group(&self, record: GroupRecord, only_behind: bool) -> Spooling<'_, Taken<bool>>;
}

/// The answer of a spool, once it is there.
pub type Spooling<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What a spool says of one record.
pub type Taken<T> = Result<T, SpoolRefusal>;

/// Why a spool takes no record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct SpoolRefusal {
    /// Whether the records may have been appended all the same.
    pub fate: Fate,
    /// What it says.
    pub why: String,
}

/// A write that could not reach Redis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpoolRecord {
    /// The message's topic.
    pub topic: Topic,
    /// The message.
    pub target: Target,
    /// When it was first tried, on this host's clock.
    pub tried_at: UnixMillis,
    /// Whether the first try may have been applied.
    pub fate: Fate,
    /// The operation.
    pub action: SpoolAction,
}

/// A change of a whole group that could not reach Redis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupRecord {
    /// The group.
    pub group: Group,
    /// When it was first tried, on this host's clock.
    pub tried_at: UnixMillis,
    /// Whether the first try may have changed some of its messages.
    pub fate: Fate,
    /// What is to be done to them.
    pub change: GroupChange,
}

/// What is to be done to all pending messages of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupChange {
    /// Cancel them.
    Cancel,
    /// Shift their due times.
    Shift {
        /// By how much.
        by: Shift,
        /// Under this token a repeat continues.
        token: String,
    },
}

/// What a spool keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnyRecord {
    /// A write of one message.
    Message(SpoolRecord),
    /// A change of a whole group.
    Group(GroupRecord),
}

/// The operation of a spooled write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpoolAction {
    /// Put this message.
    Put(Arc<Message>),
    /// Cancel the message.
    Cancel,
    /// Change its due time.
    Reschedule(Reschedule),
}

/// What is to be called again, with delays that count from now.
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
    /// A put; `fate` and `tried` (this host's clock) are those of its first try.
    ///
    /// # Panics
    /// The message has no id, by which a repeat would be recognised.
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

    /// A cancel, to be applied after earlier records of its id.
    pub fn cancel(topic: &Topic, target: &Target, tried: UnixMillis) -> Self {
        Self {
            topic: topic.clone(),
            target: target.clone(),
            tried_at: tried,
            fate: Fate::NotApplied,
            action: SpoolAction::Cancel,
        }
    }

    /// A reschedule, to be applied after earlier records of its id.
    pub fn reschedule(topic: &Topic, target: &Target, change: Reschedule, tried: UnixMillis) -> Self {
        Self { action: SpoolAction::Reschedule(change), ..Self::cancel(topic, target, tried) }
    }

    /// The same write, as one that was never tried.
    #[must_use]
    pub fn never_tried(mut self) -> Self {
        self.fate = Fate::NotApplied;
        if let SpoolAction::Put(message) = &mut self.action {
            Arc::make_mut(message).tried = None;
        }
        self
    }

    /// Whether it may be of any group, because it names none and its id says nothing of it: a put names its group, and an
    /// own id in a group is found by both alone.
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

    /// What to call at `now` (this host's clock); `tried` is when it was first tried, with unknown fate, since it was
    /// spooled.
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
                // Its times were checked when it was put.
                let due = left(message.due);
                Resubmit::Put(Message { due, tried, any_time: true, ..Message::clone(message) })
            }
        }
    }
}

// === impl GroupRecord ===

impl GroupRecord {
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

    /// The write of one message, if it is one.
    pub fn message(&self) -> Option<&SpoolRecord> {
        match self {
            Self::Message(record) => Some(record),
            Self::Group(_) => None,
        }
    }

    /// The same write, with its times on a clock that was since set ahead by `ms`, or back if that is negative.
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

    /// The same write, as one that was never tried.
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
