//! Purges a topic: removes messages in one state.

use super::TopicAdmin;
use crate::admin::TimeRange;
use crate::error::Error;
use delayq_core::verbs::cursor::Cursor;
use delayq_core::verbs::purge::{self, Purged};

/// The messages that a purge removes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PurgeWhat {
    /// Delayed messages that are due in this range.
    Delayed(TimeRange),
    /// Ready messages.
    Ready,
    /// Dead letters that died in this range.
    Dead(TimeRange),
}

// === impl TopicAdmin ===

impl TopicAdmin<'_> {
    /// Removes messages of a topic, in bounded steps. After each step, `progress` gets the number removed so far.
    ///
    /// # Errors
    /// Redis cannot be used; some messages are removed then. A repeat continues.
    pub async fn purge(self, what: PurgeWhat, mut progress: impl FnMut(u64)) -> Result<Purged, Error> {
        let (state, range) = match what {
            PurgeWhat::Delayed(range) => ("delayed", range),
            PurgeWhat::Ready => ("ready", TimeRange::ALL),
            PurgeWhat::Dead(range) => ("dead", range),
        };
        range.check()?;
        let mut purged = Purged::default();
        let mut shards = self.admin.every_shard().await?;
        while let Some(shard) = shards.next() {
            let mut cursor = Some(Cursor::from(range.from));
            while let Some(at) = cursor {
                let (some, next) = self
                    .admin
                    .client
                    .calls
                    .ask(purge::request(shard, self.topic, (state, range.to), &at), purge::read)
                    .await?;
                purged.add(some);
                progress(purged.purged);
                cursor = next;
            }
        }
        Ok(purged)
    }
}
