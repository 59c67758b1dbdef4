//! Finding messages in shards: in the present shard first, then in the shards from before a growth.

use super::Producer;
use crate::calls::{Batch, Load, carry};
use crate::error::Error;
use delayq_core::call::Call;
use delayq_core::reply::{ReplyError, Value};
use delayq_core::shard::ShardId;
use delayq_core::target::Target;

/// Approximate bytes of one target in a call: an id and a group of at most 128 each, and two times.
const TARGET_BYTES: usize = 384;

pub(super) struct Question<R, D, U> {
    pub(super) request: R,
    pub(super) read: D,
    /// Returns true if the shard does not know the message.
    pub(super) unknown: U,
}

struct Targets<'a, T, R, D, U> {
    producer: &'a Producer,
    targets: &'a [&'a Target],
    question: Question<R, D, U>,
    /// The last shard in each list is the present shard.
    asked: Vec<Vec<ShardId>>,
    answers: Vec<Option<Result<T, Error>>>,
}

// === impl Producer ===

impl Producer {
    /// Asks the shards of each target, the present shard first, until a shard knows the message. Returns one answer for
    /// each target, in order.
    pub(super) async fn where_known<T: Send>(
        &self,
        targets: &[&Target],
        question: Question<
            impl Fn(ShardId, &[usize]) -> Call + Send,
            impl Fn(Value, usize) -> Result<Vec<T>, ReplyError> + Send,
            impl Fn(&T) -> bool + Send,
        >,
    ) -> Vec<Result<T, Error>> {
        let mut load = Targets {
            producer: self,
            targets,
            question,
            asked: targets.iter().map(|_| Vec::new()).collect(),
            answers: targets.iter().map(|_| None).collect(),
        };
        for item in 0..targets.len() {
            load.next_shard(item);
        }
        carry(&self.client.calls, &mut load, targets.len()).await;
        load.answers.into_iter().map(|answer| answer.expect("every target is asked for somewhere")).collect()
    }
}

// === impl Targets ===

impl<T, R, D, U> Targets<'_, T, R, D, U> {
    /// Moves a target on to the next shard by the layout that is known now: the last call may have met a growth.
    /// Returns true if there is a next shard.
    fn next_shard(&mut self, item: usize) -> bool {
        let shards = self.producer.client.calls.shared_layout().shards_of(self.targets[item]);
        let asked = &mut self.asked[item];
        let next = shards.into_iter().find(|shard| !asked.contains(shard));
        asked.extend(next);
        next.is_some()
    }
}

impl<T, R, D, U> Load for Targets<'_, T, R, D, U>
where
    T: Send,
    R: Fn(ShardId, &[usize]) -> Call + Send,
    D: Fn(Value, usize) -> Result<Vec<T>, ReplyError> + Send,
    U: Fn(&T) -> bool + Send,
{
    type Key = ShardId;

    fn next_call(&self, item: usize) -> (ShardId, usize) {
        (*self.asked[item].last().expect("a target has a shard"), TARGET_BYTES)
    }

    fn call(&mut self, batch: &Batch<ShardId>) -> Call {
        (self.question.request)(batch.key, &batch.items)
    }

    fn read(&mut self, batch: &Batch<ShardId>, reply: Value) -> Result<Vec<usize>, ReplyError> {
        let found = (self.question.read)(reply, batch.items.len())?;
        let mut onward = Vec::new();
        for (&item, found) in batch.items.iter().zip(found) {
            if (self.question.unknown)(&found) && self.next_shard(item) {
                onward.push(item);
            }
            self.answers[item] = Some(Ok(found));
        }
        Ok(onward)
    }

    fn fail(&mut self, item: usize, shard: ShardId, error: Error) {
        self.producer.note(shard, &error);
        self.answers[item] = Some(Err(error));
    }
}
