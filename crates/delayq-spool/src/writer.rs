//! The producer's side of a spool.

use crate::committer::{Append, Committer, Row, key_of};
use crate::encoding;
use crate::error::SpoolError;
use delayq_core::spool::{Spool, SpoolRecord, Spooling};
use std::fmt;
use std::path::Path;
use tokio::sync::{mpsc, oneshot};

/// How many appends may wait for the disk before callers must wait.
const QUEUE: usize = 1024;

/// The limits of a spool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpoolSettings {
    /// Its maximum size, 1 MiB or more, beyond which appends are refused. Default 1 GiB.
    pub max_bytes: u64,
}

/// A spool to append to. Cheap to clone; its thread ends with the last clone, once all accepted records are written.
#[derive(Clone)]
pub struct SpoolWriter(mpsc::Sender<Append>);

// === impl SpoolSettings ===

impl Default for SpoolSettings {
    fn default() -> Self {
        Self { max_bytes: 1 << 30 }
    }
}

// === impl SpoolWriter ===

impl SpoolWriter {
    /// Opens the spool of a folder, and creates both if they are missing. Blocks on the disk.
    ///
    /// # Errors
    /// The folder cannot be used, or the file is not a spool, has a newer version, or is damaged.
    pub fn open(dir: &Path, settings: &SpoolSettings) -> Result<Self, SpoolError> {
        let committer = Committer::open(dir, settings.max_bytes)?;
        let (queue, appends) = mpsc::channel(QUEUE);
        let thread = std::thread::Builder::new().name("delayq-spool".to_owned());
        let started = thread.spawn(move || committer.run(appends));
        started.map_err(|error| SpoolError::folder(dir, &error))?;
        Ok(Self(queue))
    }

    /// Appends records, all or none; returns once they are on disk. A dropped future has appended all or nothing.
    ///
    /// # Errors
    /// Nothing was appended, unless [`SpoolError::fate`] is *unknown*.
    pub async fn append(&self, records: Vec<SpoolRecord>) -> Result<(), SpoolError> {
        self.send(&records, None).await.map(drop)
    }

    /// Appends a cancel or a reschedule only if a record of its message still waits, and returns whether one does.
    ///
    /// # Errors
    /// As [`Self::append`].
    pub async fn append_behind(&self, record: SpoolRecord) -> Result<bool, SpoolError> {
        let key = key_of(&record.topic, &record.target.id);
        self.send(&[record], Some(key)).await
    }

    async fn send(&self, records: &[SpoolRecord], only_after: Option<i64>) -> Result<bool, SpoolError> {
        records.iter().try_for_each(encoding::check)?;
        let rows = records.iter().map(Row::from).collect();
        let (answer, answered) = oneshot::channel();
        let append = Append { rows, only_after, answer };
        self.0.send(append).await.map_err(|_| SpoolError::Closed)?;
        answered.await.map_err(|_| SpoolError::Closed)?
    }
}

impl Spool for SpoolWriter {
    fn append(&self, records: Vec<SpoolRecord>) -> Spooling<'_, ()> {
        Box::pin(async move { Ok(self.append(records).await?) })
    }

    fn append_behind(&self, record: SpoolRecord) -> Spooling<'_, bool> {
        Box::pin(async move { Ok(self.append_behind(record).await?) })
    }
}

impl fmt::Debug for SpoolWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SpoolWriter")
    }
}
