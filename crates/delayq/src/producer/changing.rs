//! Changing pending messages: cancel and reschedule, for one message, many messages or a whole group.

use super::targets::Question;
use super::{GroupTally, Producer};
use crate::clock;
use crate::error::Error;
use delayq_core::id::{TOKEN, Topic};
use delayq_core::limits::MAX_IDS_A_CALL;
use delayq_core::members::Members;
use delayq_core::record::RecordId;
use delayq_core::shard::ShardId;
use delayq_core::spool::{GroupChange, SpoolRecord};
use delayq_core::target::Target;
use delayq_core::time::{OddTime, Shift, UnixMillis};
use delayq_core::verbs::cancel::{self, CancelOutcome};
use delayq_core::verbs::cursor::Cursor;
use delayq_core::verbs::group::{self as group_steps, ShiftStep};
use delayq_core::verbs::reschedule::{self, Reschedule, RescheduleOutcome};

// === impl Producer ===

impl Producer {
    /// Cancels a message, which is then not delivered. Puts of the same id that this producer has in flight come first.
    ///
    /// # Errors
    /// Redis cannot be used, and there is no spool. Safe to repeat after any error.
    pub async fn cancel(&self, topic: &Topic, target: &Target) -> Result<CancelOutcome, Error> {
        let mut outcomes = self.cancel_many(topic, std::slice::from_ref(target)).await;
        outcomes.pop().expect("each target has one outcome")
    }

    /// Cancels many messages of one topic. Returns one answer for each target, in order.
    #[must_use = "each has its own answer"]
    pub async fn cancel_many(&self, topic: &Topic, targets: &[Target]) -> Vec<Result<CancelOutcome, Error>> {
        self.cancel_recorded(topic, targets, &[]).await
    }

    /// Without records, as separate calls.
    pub(super) async fn cancel_recorded(
        &self,
        topic: &Topic,
        targets: &[Target],
        records: &[Option<RecordId>],
    ) -> Vec<Result<CancelOutcome, Error>> {
        let began = clock::instant();
        let record = |i: usize| SpoolRecord::cancel(topic, &targets[i], clock::wall_time_of(began));
        let write = async |open: Vec<usize>| {
            let targets: Vec<&Target> = open.iter().map(|&i| &targets[i]).collect();
            let item = |i: usize| (targets[i], of(records, open[i]));
            let request =
                |shard, some: &[usize]| cancel::request(shard, topic, some.iter().map(|&i| item(i)));
            let unknown = |found: &CancelOutcome| *found == CancelOutcome::Unknown;
            self.where_known(&targets, Question { request, read: cancel::read, unknown }).await
        };
        let names = targets.iter().map(|target| (&target.id, target.group.as_ref()));
        self.in_order(names, record, write, |_| CancelOutcome::Spooled).await
    }

    /// Cancels every pending message of a group (`&group`), or the group's messages of one topic
    /// ([`Members::of_topic`]), in bounded steps.
    ///
    /// # Errors
    /// Some messages may be cancelled by then; safe to repeat.
    pub async fn cancel_group(&self, members: impl Into<Members>) -> Result<GroupTally, Error> {
        let members = members.into();
        self.group_in_order(&members, GroupChange::Cancel, self.cancel_group_now(&members)).await
    }

    async fn cancel_group_now(&self, members: &Members) -> Result<GroupTally, Error> {
        let (mut tally, mut through) = (GroupTally::default(), Vec::new());
        while let Some(shard) = self.client.calls.shared_layout().next_shard_of(&members.group, &through) {
            let mut cursor = Some(Cursor::from(UnixMillis::new(0)));
            while let Some(at) = cursor {
                let call = group_steps::cancel(shard, members, &at, MAX_IDS_A_CALL as u16);
                let step = self.client.calls.ask(call, group_steps::read_cancel).await;
                let step = step.map_err(|error| self.failed_at(shard, tally, error))?;
                tally.changed += step.cancelled;
                tally.passed += step.leased + step.failed;
                cursor = step.next;
            }
            through.push(shard);
        }
        Ok(tally)
    }

    /// Changes the due time of a pending message; the id stays the same.
    ///
    /// # Errors
    /// After *unknown* the change may have been made: a repeat is safe if the change is to an absolute time, or names
    /// the expected time.
    pub async fn reschedule(
        &self,
        topic: &Topic,
        target: &Target,
        change: Reschedule,
    ) -> Result<RescheduleOutcome, Error> {
        let mut outcomes = self.reschedule_many(topic, &[(target.clone(), change)]).await;
        outcomes.pop().expect("each target has one outcome")
    }

    /// Changes the due times of many messages of one topic. Returns one answer for each change, in order.
    #[must_use = "each has its own answer"]
    pub async fn reschedule_many(
        &self,
        topic: &Topic,
        changes: &[(Target, Reschedule)],
    ) -> Vec<Result<RescheduleOutcome, Error>> {
        self.reschedule_recorded(topic, changes, &[]).await
    }

    /// Without records, as separate calls.
    pub(super) async fn reschedule_recorded(
        &self,
        topic: &Topic,
        changes: &[(Target, Reschedule)],
        records: &[Option<RecordId>],
    ) -> Vec<Result<RescheduleOutcome, Error>> {
        let odd: Vec<Option<OddTime>> = changes.iter().map(|(_, change)| change.check().err()).collect();
        let sound = (0..changes.len()).filter(|&i| odd[i].is_none());
        let sound: Vec<_> = sound.map(|i| (&changes[i].0, of(records, i), changes[i].1)).collect();
        let mut answers = self.reschedule_sound(topic, &sound).await.into_iter();
        let answer = |odd: Option<OddTime>| match odd {
            Some(odd) => Err(odd.into()),
            None => answers.next().expect("one answer for each sound change"),
        };
        odd.into_iter().map(answer).collect()
    }

    async fn reschedule_sound(
        &self,
        topic: &Topic,
        changes: &[(&Target, Option<RecordId>, Reschedule)],
    ) -> Vec<Result<RescheduleOutcome, Error>> {
        let began = clock::instant();
        let record =
            |i: usize| SpoolRecord::reschedule(topic, changes[i].0, changes[i].2, clock::wall_time_of(began));
        let write = async |open: Vec<usize>| {
            let targets: Vec<&Target> = open.iter().map(|&i| changes[i].0).collect();
            let request = |shard, some: &[usize]| {
                reschedule::request(shard, topic, some.iter().map(|&i| changes[open[i]]))
            };
            let unknown = |found: &RescheduleOutcome| *found == RescheduleOutcome::Unknown;
            self.where_known(&targets, Question { request, read: reschedule::read, unknown }).await
        };
        let names = changes.iter().map(|(target, ..)| (&target.id, target.group.as_ref()));
        self.in_order(names, record, write, |_| RescheduleOutcome::Spooled).await
    }

    /// Shifts the due times of a group (`&group`), or of the group's messages of one topic ([`Members::of_topic`]), by
    /// at least a millisecond, in bounded steps, each message once. A repeat under the same `token` continues, and
    /// moves no message twice.
    ///
    /// # Errors
    /// The token is invalid; otherwise some messages may be shifted: repeat the call with the same token.
    pub async fn reschedule_group(
        &self,
        members: impl Into<Members>,
        by: Shift,
        token: &str,
    ) -> Result<GroupTally, Error> {
        TOKEN.check(token)?;
        let (members, change) = (members.into(), GroupChange::Shift { by, token: token.to_owned() });
        self.group_in_order(&members, change, self.shift_group_now(&members, by, token)).await
    }

    async fn shift_group_now(&self, members: &Members, by: Shift, token: &str) -> Result<GroupTally, Error> {
        let (mut tally, mut through) = (GroupTally::default(), Vec::new());
        while let Some(shard) = self.client.calls.shared_layout().next_shard_of(&members.group, &through) {
            loop {
                let call = group_steps::shift(shard, members, (token, by), MAX_IDS_A_CALL as u16);
                let step = self.client.calls.ask(call, group_steps::read_shift).await;
                let step = step.map_err(|error| self.failed_at(shard, tally, error))?;
                let (moved, passed, done) = match step {
                    ShiftStep::More { moved, passed } => (moved, passed, false),
                    ShiftStep::Done { moved, passed } => (moved, passed, true),
                    ShiftStep::Busy => return Ok(GroupTally { busy: true, ..tally }),
                };
                tally.changed += moved;
                tally.passed += passed;
                if done {
                    break;
                }
            }
            through.push(shard);
        }
        Ok(tally)
    }

    /// The node may be silent. After an outage the fate is unknown if earlier steps have changed messages.
    fn failed_at(&self, shard: ShardId, tally: GroupTally, error: Error) -> Error {
        self.note(shard, &error);
        if tally.changed > 0 && error.is_outage() { error.into_unknown() } else { error }
    }
}

fn of(records: &[Option<RecordId>], place: usize) -> Option<RecordId> {
    records.get(place).copied().flatten()
}
