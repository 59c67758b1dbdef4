//! Ending messages by id in any state, for callers that hold no receipt.

use super::Producer;
use super::targets::Question;
use crate::error::Error;
use delayq_core::id::Topic;
use delayq_core::target::Target;
use delayq_core::verbs::finish::{self, FinishOutcome, FinishWhich};

// === impl Producer ===

impl Producer {
    /// Ends messages of one topic: pending messages are cancelled, leased messages are marked as delivered, dead
    /// letters are deleted. Returns one answer for each target, in order. An own id in a group is only found together
    /// with the group.
    ///
    /// For gateways to protocols without receipts: a holder with an expired lease also ends the message for the next
    /// holder.
    #[must_use = "each has its own answer"]
    pub async fn finish_many(
        &self,
        topic: &Topic,
        which: FinishWhich,
        targets: &[Target],
    ) -> Vec<Result<FinishOutcome, Error>> {
        let all: Vec<&Target> = targets.iter().collect();
        let request = |shard, some: &[usize]| {
            finish::request(shard, topic, which, some.iter().map(|&item| &targets[item]))
        };
        let unknown = |found: &FinishOutcome| *found == FinishOutcome::Unknown;
        self.where_known(&all, Question { request, read: finish::read, unknown }).await
    }
}
