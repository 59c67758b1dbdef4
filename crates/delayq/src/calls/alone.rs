//! Separate calls: each call is an item.

use super::grouping::Batch;
use super::load::Load;
use crate::error::Error;
use delayq_core::call::Call;
use delayq_core::reply::{ReplyError, Value};
use delayq_core::shard::ShardId;

pub(super) struct Alone {
    /// The calls that are not sent yet.
    calls: Vec<Option<Call>>,
    answers: Vec<Option<Result<Value, Error>>>,
}

// === impl Alone ===

impl Alone {
    pub(super) fn new(calls: Vec<Call>) -> Self {
        let answers = calls.iter().map(|_| None).collect();
        Self { calls: calls.into_iter().map(Some).collect(), answers }
    }

    pub(super) fn answers(self) -> Vec<Result<Value, Error>> {
        self.answers.into_iter().map(|answer| answer.expect("each call is answered")).collect()
    }
}

impl Load for Alone {
    type Key = usize;

    fn next_call(&self, item: usize) -> (usize, usize) {
        (item, 0)
    }

    fn call(&mut self, batch: &Batch<usize>) -> Call {
        self.calls[batch.key].take().expect("a call is made once")
    }

    fn read(&mut self, batch: &Batch<usize>, reply: Value) -> Result<Vec<usize>, ReplyError> {
        self.answers[batch.key] = Some(Ok(reply));
        Ok(Vec::new())
    }

    fn fail(&mut self, item: usize, _shard: ShardId, error: Error) {
        self.answers[item] = Some(Err(error));
    }
}
