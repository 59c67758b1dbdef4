//! Changing what is pending: cancel and reschedule, one, many or a whole group.

use super::{GroupTally, Producer, Target};
use crate::{
    CancelOutcome, Error, Group, MAX_IDS_A_CALL, MessageId, Reschedule, RescheduleOutcome, ShardId,
    ShiftStep, Topic, clock,
};
use std::collections::HashMap;

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
        let send = |shard, some: Vec<usize>| async move {
            let ids: Vec<&MessageId> = some.iter().map(|&i| &targets[i].id).collect();
            self.client.cancel_call(shard, topic, &ids).await
        };
        let tried = clock::now();
        let answers = self.by_shard(targets, send).await;
        self.spool_cancels(topic, targets, answers, tried).await
    }

    /// Cancels every pending message of a group, in bounded steps.
    ///
    /// # Errors
    /// Some may be cancelled then; safe to repeat.
    pub async fn cancel_group(&self, group: &Group) -> Result<GroupTally, Error> {
        let (mut tally, mut cursor) = (GroupTally::default(), Some(0));
        while let Some(at) = cursor {
            let step = self.client.cancel_group_step(group, at, MAX_IDS_A_CALL as u16).await?;
            tally.changed += step.cancelled;
            tally.passed += step.leased + step.failed;
            cursor = step.next;
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
        let send = |shard, some: Vec<usize>| async move {
            let some: Vec<_> = some.iter().map(|&i| (&changes[i].0.id, changes[i].1)).collect();
            self.client.reschedule_call(shard, topic, &some).await
        };
        let tried = clock::now();
        let answers = self.by_shard(&targets, send).await;
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
        let mut tally = GroupTally::default();
        loop {
            let step = self.client.shift_group_step(group, token, by_ms, MAX_IDS_A_CALL as u16).await?;
            let (moved, passed, done) = match step {
                ShiftStep::More { moved, passed } => (moved, passed, false),
                ShiftStep::Done { moved, passed } => (moved, passed, true),
                ShiftStep::Busy => return Ok(GroupTally { busy: true, ..tally }),
            };
            tally.changed += moved;
            tally.passed += passed;
            if done {
                return Ok(tally);
            }
        }
    }

    /// Calls `send` for the targets of each shard, at most 500 at a time, and brings the answers back into order.
    async fn by_shard<T, F>(
        &self,
        targets: &[Target],
        send: impl Fn(ShardId, Vec<usize>) -> F,
    ) -> Vec<Result<T, Error>>
    where
        F: Future<Output = Result<Vec<T>, Error>>,
    {
        let mut shards: HashMap<ShardId, Vec<usize>> = HashMap::new();
        for (i, target) in targets.iter().enumerate() {
            shards.entry(target.shard(&self.client)).or_default().push(i);
        }
        let mut answers: Vec<Option<Result<T, Error>>> = targets.iter().map(|_| None).collect();
        for (shard, all) in shards {
            for some in all.chunks(MAX_IDS_A_CALL) {
                match send(shard, some.to_vec()).await {
                    Ok(outcomes) => {
                        some.iter().zip(outcomes).for_each(|(&i, outcome)| answers[i] = Some(Ok(outcome)));
                    }
                    Err(error) => some.iter().for_each(|&i| answers[i] = Some(Err(error.clone()))),
                }
            }
        }
        answers.into_iter().map(|answer| answer.expect("every target is in one shard")).collect()
    }
}
