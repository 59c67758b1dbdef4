//! The producer's side of a spool.

use crate::committer::{Append, Committer, Request, Row, key_of_group};
use crate::encoding;
use crate::error::SpoolError;
use crate::flag::Flag;
use delayq_core::id::Group;
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
pub struct SpoolWriter {
    queue: mpsc::Sender<Request>,
    flag: Flag,
}

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
        let flag = committer.flag().clone();
        let (queue, requests) = mpsc::channel(QUEUE);
        let thread = std::thread::Builder::new().name("delayq-spool".to_owned());
        let started = thread.spawn(move || committer.run(requests));
        started.map_err(|error| SpoolError::folder(dir, &error))?;
        Ok(Self { queue, flag })
    }

    /// Appends records, all or none; returns once they are on disk. A dropped future has appended all or nothing.
    ///
    /// # Errors
    /// Nothing was appended, unless [`SpoolError::fate`] is *unknown*.
    pub async fn append(&self, records: Vec<SpoolRecord>) -> Result<(), SpoolError> {
        self.send(&records, false).await.map(drop)
    }

    /// Appends the records whose message has one waiting, and returns for each whether it did, in order.
    ///
    /// # Errors
    /// As [`Self::append`].
    pub async fn append_behind(&self, records: Vec<SpoolRecord>) -> Result<Vec<bool>, SpoolError> {
        self.send(&records, true).await
    }

    /// Whether a record of a message of this group waits.
    ///
    /// # Errors
    /// The file cannot be read.
    pub async fn holds_group(&self, group: &Group) -> Result<bool, SpoolError> {
        let (answer, answered) = oneshot::channel();
        self.ask(Request::HoldsGroup(key_of_group(group), answer), answered).await
    }

    async fn send(&self, records: &[SpoolRecord], only_behind: bool) -> Result<Vec<bool>, SpoolError> {
        records.iter().try_for_each(encoding::check)?;
        let rows = records.iter().map(Row::from).collect();
        let (answer, answered) = oneshot::channel();
        self.ask(Request::Append(Append { rows, only_behind, answer }), answered).await
    }

    async fn ask<T>(
        &self,
        request: Request,
        answered: oneshot::Receiver<Result<T, SpoolError>>,
    ) -> Result<T, SpoolError> {
        self.queue.send(request).await.map_err(|_| SpoolError::Closed)?;
        answered.await.map_err(|_| SpoolError::Closed)?
    }
}

impl Spool for SpoolWriter {
    fn append(&self, records: Vec<SpoolRecord>) -> Spooling<'_, ()> {
        Box::pin(async move { Ok(self.append(records).await?) })
    }

    fn may_hold(&self) -> bool {
        self.flag.is_set()
    }

    fn append_behind(&self, records: Vec<SpoolRecord>) -> Spooling<'_, Vec<bool>> {
        Box::pin(async move { Ok(self.append_behind(records).await?) })
    }

    fn holds_group(&self, group: &Group) -> Spooling<'_, bool> {
        let group = group.clone();
        Box::pin(async move { Ok(self.holds_group(&group).await?) })
    }
}

impl fmt::Debug for SpoolWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SpoolWriter")
    }
}
