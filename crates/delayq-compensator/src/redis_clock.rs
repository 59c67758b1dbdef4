//! Reads Redis's clock for the spool, which dates the records of earlier boots of this host by that clock.

use delayq::Client;
use delayq::protocol::{Probe, ShardId};
use delayq_spool::{Asked, SpoolReader};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio::time::timeout;

/// The shard whose Redis dates all boots.
const SHARD: ShardId = ShardId::new(0);

/// Asks Redis, and tells the spool.
#[derive(Debug)]
pub(crate) struct RedisClock {
    client: Client,
    /// Ends with the source.
    reader: Weak<Mutex<SpoolReader>>,
}

// === impl RedisClock ===

impl RedisClock {
    pub(crate) fn new(client: Client, reader: &Arc<Mutex<SpoolReader>>) -> Self {
        Self { client, reader: Arc::downgrade(reader) }
    }

    /// Tells the spool the time of Redis's clock. Returns whether Redis answered in time.
    pub(crate) async fn tell(&self) -> bool {
        let asked = Asked::now();
        let probe = Probe::new(&self.client);
        let Ok(Ok(answer)) = timeout(Asked::PATIENCE, probe.time(SHARD)).await else { return false };
        let Some(heard) = asked.answered(answer) else { return false };
        self.with(move |reader| reader.hear(heard)).await.is_some()
    }

    /// Tells the spool the time of Redis's clock, which the spool notes on disk.
    pub(crate) async fn note(&self) {
        if self.tell().await {
            // A note that fails, as on a full disk, is made a minute later.
            let _ = self.with(SpoolReader::note_clock).await;
        }
    }

    async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut SpoolReader) -> T + Send + 'static,
    ) -> Option<T> {
        let reader = self.reader.upgrade()?;
        let work = move || work(&mut reader.lock().unwrap_or_else(PoisonError::into_inner));
        tokio::task::spawn_blocking(work).await.ok()
    }
}
