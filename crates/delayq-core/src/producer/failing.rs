//! Without a spool: what cannot reach Redis fails.

use super::{Producer, Target};
use crate::{CancelOutcome, Error, Message, PutOutcome, Reschedule, RescheduleOutcome, Topic, UnixMillis};

// === impl Producer ===

#[allow(clippy::unused_async, reason = "the same shape as with a spool")]
impl Producer {
    pub(super) async fn spool_or(
        &self,
        error: Error,
        messages: &[&Message],
        _tried: UnixMillis,
    ) -> Vec<Result<PutOutcome, Error>> {
        vec![Err(error); messages.len()]
    }

    pub(super) async fn spool_cancels(
        &self,
        _topic: &Topic,
        _targets: &[Target],
        answers: Vec<Result<CancelOutcome, Error>>,
        _tried: UnixMillis,
    ) -> Vec<Result<CancelOutcome, Error>> {
        answers
    }

    pub(super) async fn spool_reschedules(
        &self,
        _topic: &Topic,
        _changes: &[(Target, Reschedule)],
        answers: Vec<Result<RescheduleOutcome, Error>>,
        _tried: UnixMillis,
    ) -> Vec<Result<RescheduleOutcome, Error>> {
        answers
    }
}
