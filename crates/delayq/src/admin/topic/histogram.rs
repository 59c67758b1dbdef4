//! Counts delayed messages by due time, in intervals of one width.

use super::TopicAdmin;
use crate::admin::TimeRange;
use crate::error::Error;
use delayq_core::time::UnixMillis;
use delayq_core::verbs::histogram::{self, Slot};
use std::collections::BTreeMap;
use std::time::Duration;

// === impl TopicAdmin ===

impl TopicAdmin<'_> {
    /// Counts the delayed messages of a topic by due time, in intervals of `width` (a minute to an hour, a divisor of
    /// an hour). Empty intervals are left out.
    ///
    /// # Errors
    /// Redis cannot be used, or the width is invalid.
    pub async fn histogram(self, range: TimeRange, width: Duration) -> Result<Vec<Slot>, Error> {
        range.check()?;
        let mut slots: BTreeMap<UnixMillis, u64> = BTreeMap::new();
        // The script excludes the end of the range.
        let end = UnixMillis::new(range.to.get() + 1);
        let mut shards = self.admin.every_shard().await?;
        while let Some(shard) = shards.next() {
            let mut from = Some(range.from);
            while let Some(at) = from {
                let (some, next) = self
                    .admin
                    .client
                    .calls
                    .ask(histogram::request(shard, self.topic, (at, end), width), histogram::read)
                    .await?;
                some.into_iter().for_each(|slot| *slots.entry(slot.start).or_default() += slot.count);
                from = next;
            }
        }
        Ok(slots.into_iter().map(|(start, count)| Slot { start, count }).collect())
    }
}
