//! The spool: a folder on local disk for writes that could not reach Redis.
//!
//! ```text
//! producers ──append──► one thread a process ──one commit for all that wait──► spool.db ──► compensator ─► Redis
//!                                    answered once it is on disk                  └─► rejected, with the reason
//! ```
//!
//! It is an SQLite database (write-ahead log, fsync at every commit), so several producer processes and one
//! compensator share a folder, a killed process leaves no half record, and `sqlite3` can look at it. Each record
//! has its own checksum ([`SpoolRecord`]). `users.lock` is shared by all who have the folder open, and
//! `compensator.lock` is the lease of the one who replays. The books: spooled = replayed + rejected + discarded +
//! waiting.

mod error;
mod file;
mod reader;
mod record;
mod writer;

pub use error::SpoolError;
pub use reader::{Rejected, SpoolReader, SpoolStats, Spooled, salvage_spool};
pub use record::{RecordError, Replay, SpoolRecord};

use crate::{MessageId, Reschedule, Target, Topic, UnixMillis};
use sha2::{Digest, Sha256};
use std::{fmt, path::Path};
use tokio::sync::{mpsc, oneshot};
use writer::{Append, Row, Writer};

/// Appends that may wait for the disk before callers are held back.
const QUEUE: usize = 1024;

/// The bounds of a spool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpoolSettings {
    /// The most bytes it may take, 1 MiB or more; then appends are refused. Default 1 GiB.
    pub max_bytes: u64,
}

/// A spool to append to. Cheap to clone; its thread ends with the last clone, once all it took is written.
#[derive(Clone)]
pub struct Spool(mpsc::Sender<Append>);

// === impl SpoolSettings ===

impl Default for SpoolSettings {
    fn default() -> Self {
        Self { max_bytes: 1 << 30 }
    }
}

// === impl Spool ===

impl Spool {
    /// Opens the spool of a folder, and makes both where they are not there. Blocks on the disk.
    ///
    /// # Errors
    /// A folder that cannot be used, a file that is no spool, of a newer version, or damaged.
    pub fn open(dir: &Path, settings: &SpoolSettings) -> Result<Self, SpoolError> {
        let writer = Writer::open(dir, settings.max_bytes)?;
        let (queue, appends) = mpsc::channel(QUEUE);
        let thread = std::thread::Builder::new().name("delayq-spool".to_owned());
        let started = thread.spawn(move || writer.run(appends));
        started.map_err(|error| SpoolError::folder(dir, &error))?;
        Ok(Self(queue))
    }

    /// Appends records, all or none; answers once they are on disk. A dropped future has appended all or nothing.
    ///
    /// # Errors
    /// Nothing was appended, except where [`SpoolError::fate`] is *unknown*.
    pub async fn append(&self, records: Vec<SpoolRecord>) -> Result<(), SpoolError> {
        self.send(&records, None).await.map(drop)
    }

    /// Appends a cancel if something of its message still waits in the spool, and says so. For a cancel to which
    /// Redis answered *unknown*: if this says false, ask Redis once more, for the message may have been replayed in
    /// between.
    ///
    /// # Errors
    /// As [`Self::append`].
    pub async fn cancel_waiting(
        &self,
        topic: &Topic,
        target: &Target,
        tried: UnixMillis,
    ) -> Result<bool, SpoolError> {
        self.send_after(SpoolRecord::cancel(topic, target, tried)).await
    }

    /// The same for a reschedule.
    ///
    /// # Errors
    /// As [`Self::append`].
    pub async fn reschedule_waiting(
        &self,
        topic: &Topic,
        target: &Target,
        change: Reschedule,
        tried: UnixMillis,
    ) -> Result<bool, SpoolError> {
        self.send_after(SpoolRecord::reschedule(topic, target, change, tried)).await
    }

    async fn send_after(&self, record: SpoolRecord) -> Result<bool, SpoolError> {
        let key = key_of(&record.topic, &record.target.id);
        self.send(&[record], Some(key)).await
    }

    async fn send(&self, records: &[SpoolRecord], only_after: Option<i64>) -> Result<bool, SpoolError> {
        records.iter().try_for_each(SpoolRecord::check)?;
        let rows = records.iter().map(Row::from).collect();
        let (answer, answered) = oneshot::channel();
        let append = Append { rows, only_after, answer };
        self.0.send(append).await.map_err(|_| SpoolError::Closed)?;
        answered.await.map_err(|_| SpoolError::Closed)?
    }
}

impl fmt::Debug for Spool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Spool")
    }
}

/// What finds the records of a message: the first 8 bytes of the SHA-256 of topic, a zero byte, and id. Another
/// message of the same number costs a needless look, nothing else.
fn key_of(topic: &Topic, id: &MessageId) -> i64 {
    let digest =
        Sha256::new().chain_update(topic.as_str()).chain_update([0]).chain_update(id.as_bytes()).finalize();
    digest.iter().take(8).fold(0, |key, &byte| key << 8 | i64::from(byte))
}
