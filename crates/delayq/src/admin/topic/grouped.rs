//! Counts the delayed messages of one group by due time. The index of the group has every pending message, so the messages are read.

use super::{Horizon, TopicAdmin};
use crate::admin::TimeRange;
use crate::admin::listing::Listing;
use crate::error::Error;
use delayq_core::envelope::State;
use delayq_core::id::Group;
use delayq_core::limits::MAX_IDS_A_CALL;
use delayq_core::time::UnixMillis;
use delayq_core::verbs::histogram::Slot;
use std::collections::BTreeMap;
use std::time::Duration;

/// Maximum messages of the group that a horizon reads: about 100 ms of Redis.
const MAX_READ: usize = 20_000;

// === impl TopicAdmin ===

impl TopicAdmin<'_> {
    /// Counts the delayed messages of a group of this topic, as [`horizon`](Self::horizon) does. Reads at most 20,000 messages,
    /// the earliest first.
    ///
    /// # Errors
    /// Redis cannot be used, or the edges do not ascend.
    pub async fn horizon_of_group(self, group: &Group, edges: &[UnixMillis]) -> Result<Horizon, Error> {
        let (Some(&first), Some(&last), true) = (edges.first(), edges.last(), Horizon::may_have(edges))
        else {
            return Err(Horizon::odd_edges());
        };
        let mut counts = vec![0; edges.len() - 1];
        let end = self
            .due_times(group, MAX_READ, last, |due| {
                if (first..last).contains(&due) {
                    counts[edges.partition_point(|edge| *edge <= due) - 1] += 1;
                }
            })
            .await?;
        if let Some(end) = end {
            counts.truncate(edges[1..].iter().take_while(|edge| **edge <= end).count());
        }
        Ok(Horizon { counts })
    }

    /// Counts the delayed messages of a group of this topic, as [`histogram`](Self::histogram) does.
    ///
    /// # Errors
    /// Redis cannot be used, or a time of the range is most likely in another unit.
    pub async fn histogram_of_group(
        self,
        group: &Group,
        range: TimeRange,
        width: Duration,
    ) -> Result<Vec<Slot>, Error> {
        range.check()?;
        let width_ms = (width.as_millis() as u64).max(1);
        let mut slots = BTreeMap::<u64, u64>::new();
        self.due_times(group, usize::MAX, range.to, |due| {
            if (range.from..=range.to).contains(&due) {
                *slots.entry(due.get() / width_ms * width_ms).or_default() += 1;
            }
        })
        .await?;
        Ok(slots.into_iter().map(|(start, count)| Slot { start: UnixMillis::new(start), count }).collect())
    }

    /// Reads the due times of the delayed messages up to a time. Returns the time up to which all were read, if that is earlier.
    async fn due_times(
        self,
        group: &Group,
        max: usize,
        until: UnixMillis,
        mut note: impl FnMut(UnixMillis),
    ) -> Result<Option<UnixMillis>, Error> {
        let listing = Listing::Group { group, topic: Some(self.topic) };
        let (mut after, mut read) = (None, 0);
        loop {
            let page = self.admin.page(listing, after.as_ref(), MAX_IDS_A_CALL).await?;
            read += page.messages.len();
            let mut last = UnixMillis::new(0);
            for envelope in page.messages.iter().filter_map(|listed| listed.envelope.as_ref().ok()) {
                last = envelope.due;
                if envelope.state == State::Delayed {
                    note(envelope.due);
                }
            }
            after = page.next;
            if after.is_none() || last > until {
                return Ok(None);
            }
            if read >= max {
                return Ok(Some(last));
            }
        }
    }
}
