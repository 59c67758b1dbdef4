//! A producer's view of a spool: the writes that could not reach Redis, and where they wait to be resubmitted.
//!
//! **A delay stays a delay.** It is kept with the time of the first try, and what is left of it is counted when the write
//! is resubmitted, by the same host's clock; Redis then adds that to its own. So it does not matter how far the two
//! clocks are apart: a due time made absolute by a clock that is behind Redis's would be early by the difference. What
//! remains is a step of this host's clock while the record waits: back, and the message is late; forward, and it is
//! early by the step.

use crate::fate::Fate;
use crate::id::{Group, Topic};
use crate::message::{Due, Message};
use crate::target::Target;
use crate::time::UnixMillis;
use crate::verbs::reschedule::Reschedule;
use std::fmt::Debug;
use std::pin::Pin;

/// Where a producer's writes go if they cannot reach Redis. That of `delayq-spool` is a database on this host's disk.
///
/// # Contract
/// - What is answered with `Ok` survives the process and is resubmitted later.
/// - Records of one message are resubmitted in the order in which they were appended.
/// - While a record of a message waits, every writer that shares the spool appends its later writes behind it.
/// - A refused record refuses the later ones of its message in the same call, which must not overtake it.
pub trait Spool: Debug + Send + Sync {
    /// Appends records; answers for each, in order, once they are durable. One that is refused does not stop those of other
    /// messages.
    fn append(&self, records: Vec<SpoolRecord>) -> Spooling<'_, Vec<Taken<()>>>;

    /// Whether a record may wait here, appended by any process: false only if none does. Asked before every write, so it
    /// takes about as long as one read of a file that is in memory.
    fn may_hold(&self) -> bool;

    /// Appends the records whose message has one waiting here, and returns for each whether it did, in order. The others
    /// are not held up by anything: what was resubmitted is in Redis.
    fn append_behind(&self, records: Vec<SpoolRecord>) -> Spooling<'_, Vec<Taken<bool>>>;

    /// Whether a record of a message of this group waits here.
    fn holds_group(&self, group: &Group) -> Spooling<'_, Taken<bool>>;
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

/// The operation of a spooled write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpoolAction {
    /// Put this message.
    Put(Message),
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
        let id = message.id.clone().expect("a message has its id before it is spooled");
        Self {
            topic: message.topic.clone(),
            target: Target { id, group: message.group.clone() },
            tried_at: tried,
            fate,
            action: SpoolAction::Put(message.clone()),
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
            message.tried = None;
        }
        self
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
                Resubmit::Put(Message { due: left(message.due), tried, ..message.clone() })
            }
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
