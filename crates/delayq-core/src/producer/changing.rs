//! Changing what is pending: cancel and reschedule, one, many or a whole group.

use super::{GroupTally, Producer, Target};
use crate::{
    CancelOutcome, Error, Group, MAX_IDS_A_CALL, MessageId, Reschedule, RescheduleOutcome, ShardId, Topic,
    UnixMillis, clock,
    link::Call,
    verbs::{Cursor, ShiftStep, read_cancelled, read_rescheduled},
};
use redis::Value;
use std::collections::BTreeMap;

/// Calls in one pipeline.
const CALLS_A_PIPELINE: usize = 16;

// === impl Producer ===

impl Producer {
    /// Keeps a message from being delivered.
    ///
    /// # Errors
    /// Safe to repeat whatever the error was.
    pub async fn cancel(&self, topic: &Topic, target: &Target) -> Result<CancelOutcome, Error> {
        let mut outcomes = self.cancel_many(topic, std::slice::from_ref(target)).await;
        outcomes.pop().expect("one outcome for one target")
    }

    /// Cancels many messages of one topic: one answer each, in order.
    pub async fn cancel_many(&self, topic: &Topic, targets: &[Target]) -> Vec<Result<CancelOutcome, Error>> {
        let tried = clock::now();
        let request = |shard, some: &[usize]| {
            let ids: Vec<&MessageId> = some.iter().map(|&i| &targets[i].id).collect();
            self.client.cancel_request(shard, topic, &ids)
        };
        let answers = self
            .where_known(targets, request, read_cancelled, |found| *found == CancelOutcome::Unknown)
            .await;
        self.spool_cancels(topic, targets, answers, tried).await
    }

    /// Cancels every pending message of a group, in bounded steps.
    ///
    /// # Errors
    /// Some may be cancelled then; safe to repeat.
    pub async fn cancel_group(&self, group: &Group) -> Result<GroupTally, Error> {
        let (mut tally, mut through) = (GroupTally::default(), Vec::new());
        while let Some(shard) = self.client.next_place_of(group, &through) {
            let mut cursor = Some(Cursor::from(UnixMillis::new(0)));
            while let Some(at) = cursor {
                let step = self.client.cancel_group_step(shard, group, &at, MAX_IDS_A_CALL as u16).await?;
                tally.changed += step.cancelled;
                tally.passed += step.leased + step.failed;
                cursor = step.next;
            }
            through.push(shard);
        }
        Ok(tally)
    }

    /// Changes the due time of a pending message; its id stays.
    ///
    /// # Errors
    /// After *unknown* the change may have been made: repeating it is safe where it is to an absolute time, or
    /// names the expected one.
    pub async fn reschedule(
        &self,
        topic: &Topic,
        target: &Target,
        change: Reschedule,
    ) -> Result<RescheduleOutcome, Error> {
        let mut outcomes = self.reschedule_many(topic, &[(target.clone(), change)]).await;
        outcomes.pop().expect("one outcome for one target")
    }

    /// Changes the due times of many messages of one topic: one answer each, in order.
    pub async fn reschedule_many(
        &self,
        topic: &Topic,
        changes: &[(Target, Reschedule)],
    ) -> Vec<Result<RescheduleOutcome, Error>> {
        let targets: Vec<Target> = changes.iter().map(|(target, _)| target.clone()).collect();
        let tried = clock::now();
        let request = |shard, some: &[usize]| {
            let some: Vec<_> = some.iter().map(|&i| (&changes[i].0.id, changes[i].1)).collect();
            self.client.reschedule_request(shard, topic, &some)
        };
        let unknown = |found: &RescheduleOutcome| *found == RescheduleOutcome::Unknown;
        let answers = self.where_known(&targets, request, read_rescheduled, unknown).await;
        self.spool_reschedules(topic, changes, answers, tried).await
    }

    /// Shifts the due times of a whole group by `by_ms` (not 0), in bounded steps, each message once. Under the same
    /// `token` a repeat goes on where it was, and moves nothing twice.
    ///
    /// # Errors
    /// Some may be shifted then: repeat it with the same token.
    pub async fn reschedule_group(
        &self,
        group: &Group,
        by_ms: i64,
        token: &str,
    ) -> Result<GroupTally, Error> {
        let (mut tally, mut through) = (GroupTally::default(), Vec::new());
        while let Some(shard) = self.client.next_place_of(group, &through) {
            loop {
                let step =
                    self.client.shift_group_step(shard, group, (token, by_ms), MAX_IDS_A_CALL as u16).await?;
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

    /// Asks for each target where it may be, its present place first, until it is known somewhere: one answer each,
    /// in order. The targets of one shard go together.
    async fn where_known<T>(
        &self,
        targets: &[Target],
        request: impl Fn(ShardId, &[usize]) -> Call,
        read: impl Fn(Value, usize) -> Result<Vec<T>, Error>,
        unknown: impl Fn(&T) -> bool,
    ) -> Vec<Result<T, Error>> {
        let mut answers: Vec<Option<Result<T, Error>>> = targets.iter().map(|_| None).collect();
        let mut asked: Vec<Vec<ShardId>> = targets.iter().map(|_| Vec::new()).collect();
        loop {
            // By the layout that is known now: a call of the last round may have met a growth.
            let mut shards: BTreeMap<ShardId, Vec<usize>> = BTreeMap::new();
            for (i, target) in targets.iter().enumerate() {
                let open = match &answers[i] {
                    None => true,
                    Some(Ok(found)) => unknown(found),
                    Some(Err(_)) => false,
                };
                let next = target.places(&self.client).into_iter().find(|place| !asked[i].contains(place));
                if let Some(place) = next.filter(|_| open) {
                    asked[i].push(place);
                    shards.entry(place).or_default().push(i);
                }
            }
            if shards.is_empty() {
                break;
            }
            let batches: Vec<(ShardId, &[usize])> = shards
                .iter()
                .flat_map(|(&shard, all)| all.chunks(MAX_IDS_A_CALL).map(move |some| (shard, some)))
                .collect();
            for some in batches.chunks(CALLS_A_PIPELINE) {
                let calls = some.iter().map(|(shard, batch)| request(*shard, batch)).collect();
                for ((_, batch), reply) in some.iter().zip(self.client.send_all(calls).await) {
                    match reply.and_then(|reply| read(reply, batch.len())) {
                        Ok(outcomes) => {
                            batch.iter().zip(outcomes).for_each(|(&i, found)| answers[i] = Some(Ok(found)));
                        }
                        Err(error) => batch.iter().for_each(|&i| answers[i] = Some(Err(error.clone()))),
                    }
                }
            }
        }
        answers.into_iter().map(|answer| answer.expect("every target is asked for somewhere")).collect()
    }
}
