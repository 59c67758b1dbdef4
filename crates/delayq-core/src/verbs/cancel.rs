//! `cancel`, `reschedule`, and the same for whole groups.

use crate::{
    Client, Error, Group, MessageId, ShardId, Topic, UnixMillis,
    envelope::State,
    link::Call,
    message::Due,
    reply::{Reply, Words},
    script::Verb,
    verbs::Cursor,
};
use redis::Value;

/// What became of a cancel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CancelOutcome {
    /// It will not be delivered; also where it was cancelled before.
    Cancelled,
    /// Somebody holds it just now. It may still be delivered by that attempt, and is not tried again.
    Leased,
    /// It is among the dead letters.
    Dead,
    /// It was over before, in this way and at this time.
    Finished(State, UnixMillis),
    /// Nothing is known of it: never put, or forgotten.
    Unknown,
    /// Redis could not be reached, or the put itself waits in the spool: the cancel is in the spool behind it.
    Spooled,
    /// The script could not do it, for this reason.
    Failed(String),
}

/// A change of a due time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reschedule {
    /// To this time, or this long from now.
    To(Due),
    /// To this time, or this long from now, if it is due then (ms on Redis's clock) until now.
    ToIfDue(Due, UnixMillis),
    /// By this many milliseconds from the time that it is known to be due at; it is not moved where it is due at
    /// another one. So a repeat moves nothing twice.
    By(i64, UnixMillis),
}

/// What became of a reschedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RescheduleOutcome {
    /// It was due at the first time, and is due at the second.
    Moved {
        /// When it was due before.
        old: UnixMillis,
        /// When it is due now.
        due: UnixMillis,
        /// Whether it is ready already.
        ready: bool,
    },
    /// It is due at this time, not at the expected one. Nothing was changed.
    Changed(UnixMillis),
    /// Somebody holds it just now.
    Leased,
    /// It is among the dead letters.
    Dead,
    /// It was over before, in this way and at this time.
    Finished(State, UnixMillis),
    /// Nothing is known of it: never put, or forgotten.
    Unknown,
    /// Redis could not be reached, or the put itself waits in the spool: the change is in the spool behind it.
    Spooled,
    /// It cannot be: no due time, or one that is not before its expiry. Nothing was changed.
    Refused(String),
    /// The script could not do it, for this reason: a stored key or message is not as it should be.
    Failed(String),
}

/// One step of cancelling a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupStep {
    /// Where the next step begins; `None`: through.
    pub(crate) next: Option<Cursor>,
    /// Messages that will not be delivered.
    pub(crate) cancelled: u64,
    /// Messages that somebody holds: not tried again.
    pub(crate) leased: u64,
    /// Messages that could not be cancelled.
    pub(crate) failed: u64,
}

/// One step of shifting a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShiftStep {
    /// There is more to do.
    More {
        /// Messages that were moved.
        moved: u64,
        /// Messages that stay, because they are leased or would not fit.
        passed: u64,
    },
    /// Through.
    Done {
        /// Messages that were moved.
        moved: u64,
        /// Messages that stay, because they are leased or would not fit.
        passed: u64,
    },
    /// Another shift of this group is under way.
    Busy,
}

// === impl Client ===

impl Client {
    /// Cancels messages of one topic in one shard: at most 500. [`read_cancelled`] reads the answer.
    pub(crate) fn cancel_request(&self, shard: ShardId, topic: &Topic, ids: &[&MessageId]) -> Call {
        let mut call = self.call(Verb::Cancel, shard).arg(topic.as_str());
        ids.iter().for_each(|id| call.push(id.as_bytes()));
        call
    }

    /// Reschedules messages of one topic in one shard: at most 500. [`read_rescheduled`] reads the answer.
    pub(crate) fn reschedule_request(
        &self,
        shard: ShardId,
        topic: &Topic,
        changes: &[(&MessageId, Reschedule)],
    ) -> Call {
        let mut call = self.call(Verb::Reschedule, shard).arg(topic.as_str());
        for (id, change) in changes {
            let (due, expected) = change.arguments();
            call.push(id.as_bytes());
            call.push(due);
            call.push(expected);
        }
        call
    }

    /// A shard that may have messages of a group and is not among those that are through; `None`: all are. To be
    /// asked again after each: any call may meet a growth.
    pub(crate) fn next_place_of(&self, group: &Group, through: &[ShardId]) -> Option<ShardId> {
        let places = self.known().layout.places(group.as_str());
        places.newest_first().find(|place| !through.contains(place))
    }

    /// One step of cancelling a group.
    pub(crate) async fn cancel_group_step(
        &self,
        shard: ShardId,
        group: &Group,
        cursor: &Cursor,
        limit: u16,
    ) -> Result<GroupStep, Error> {
        let call = self.call(Verb::CancelGroup, shard).arg(group.as_str()).cursor(cursor).arg(limit);
        let mut reply = Reply::new(Verb::CancelGroup, self.send(call).await?)?;
        Ok(GroupStep {
            next: Cursor::read(&mut reply)?,
            cancelled: reply.number()?,
            leased: reply.number()?,
            failed: reply.number()?,
        })
    }

    /// One step of shifting a group by a difference in ms.
    pub(crate) async fn shift_group_step(
        &self,
        shard: ShardId,
        group: &Group,
        (token, by_ms): (&str, i64),
        limit: u16,
    ) -> Result<ShiftStep, Error> {
        let call = self.call(Verb::ShiftGroup, shard).arg(group.as_str()).arg(token).arg(by_ms).arg(limit);
        let mut reply = Reply::new(Verb::ShiftGroup, self.send(call).await?)?;
        let word = reply.text()?;
        let (moved, passed) = (reply.number()?, reply.number()?);
        match word.as_str() {
            "more" => Ok(ShiftStep::More { moved, passed }),
            "done" => Ok(ShiftStep::Done { moved, passed }),
            "busy" => Ok(ShiftStep::Busy),
            _ => Err(reply.nonsense(&word)),
        }
    }
}

// === impl Reschedule ===

impl Reschedule {
    fn arguments(self) -> (String, String) {
        match self {
            Self::To(due) => (due.argument(), String::new()),
            Self::ToIfDue(due, expected) => (due.argument(), expected.to_string()),
            Self::By(ms, expected) => (format!("by {ms:+}"), expected.to_string()),
        }
    }
}

pub(crate) fn read_cancelled(reply: Value, count: usize) -> Result<Vec<CancelOutcome>, Error> {
    let mut reply = Reply::new(Verb::Cancel, reply)?;
    (0..count).map(|_| cancelled(&mut reply)).collect()
}

pub(crate) fn read_rescheduled(reply: Value, count: usize) -> Result<Vec<RescheduleOutcome>, Error> {
    let mut reply = Reply::new(Verb::Reschedule, reply)?;
    (0..count).map(|_| rescheduled(&mut reply)).collect()
}

fn cancelled(reply: &mut Reply) -> Result<CancelOutcome, Error> {
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

fn rescheduled(reply: &mut Reply) -> Result<RescheduleOutcome, Error> {
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

fn finished(words: &mut Words<'_>) -> Option<(State, UnixMillis)> {
    Some((State::from_word(words.word())?, UnixMillis::new(words.number()?)))
}
