//! Writes that were recorded before sending: a repeat under the same record gets the answer of the first call.

use super::Producer;
use crate::calls::{Batch, scatter};
use crate::error::Error;
use delayq_core::id::Topic;
use delayq_core::record::RecordId;
use delayq_core::shard::ShardId;
use delayq_core::target::Target;
use delayq_core::verbs::cancel::CancelOutcome;
use delayq_core::verbs::reschedule::{Reschedule, RescheduleOutcome};
use delayq_core::verbs::settled;

const RECORD_BYTES: usize = 32;

/// A producer of recorded writes. A put names its record in [`Message::record`](crate::Message::record).
#[derive(Clone, Copy, Debug)]
pub struct Recorded<'a>(&'a Producer);

// === impl Recorded ===

impl<'a> Recorded<'a> {
    /// Sends over the connection of this producer.
    pub fn by(producer: &'a Producer) -> Self {
        Self(producer)
    }

    /// Cancels messages of one topic. Returns one answer for each target, in order.
    #[must_use = "each has its own answer"]
    pub async fn cancel_many(
        &self,
        topic: &Topic,
        targets: &[Target],
        records: &[Option<RecordId>],
    ) -> Vec<Result<CancelOutcome, Error>> {
        self.0.cancel_recorded(topic, targets, records).await
    }

    /// Changes the due times of messages of one topic. Returns one answer for each change, in order.
    #[must_use = "each has its own answer"]
    pub async fn reschedule_many(
        &self,
        topic: &Topic,
        changes: &[(Target, Reschedule)],
        records: &[Option<RecordId>],
    ) -> Vec<Result<RescheduleOutcome, Error>> {
        self.0.reschedule_recorded(topic, changes, records).await
    }

    /// Forgets the answers to these records, once the sources of the records have noted the answers.
    ///
    /// # Errors
    /// Some answers may be kept; Redis forgets each answer after 30 days.
    pub async fn settled(&self, records: &[(Target, RecordId)]) -> Result<(), Error> {
        let calls = &self.0.client.calls;
        let places = records.iter().flat_map(|(target, record)| {
            calls.shared_layout().shards_of(target).into_iter().map(|shard| (shard, *record))
        });
        let places: Vec<(ShardId, RecordId)> = places.collect();
        let keyed = places.iter().map(|(shard, _)| (*shard, RECORD_BYTES)).collect();
        let request =
            |batch: &Batch<ShardId>| settled::request(batch.key, batch.items.iter().map(|&i| places[i].1));
        let read = |batch: &Batch<ShardId>, reply| settled::read(reply).map(|_| vec![(); batch.items.len()]);
        scatter(calls, keyed, request, read).await.into_iter().collect()
    }
}
