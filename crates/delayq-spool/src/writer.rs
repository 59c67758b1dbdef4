//! The producer's side of a spool.

use crate::committer::{Append, AppendAnswers, Committer};
use crate::error::SpoolError;
use crate::flag::Flag;
use crate::row::Rows;
use delayq_core::spool::{GroupRecord, Spool, SpoolRecord, Spooling, Taken};
use std::fmt;
use std::path::Path;
use tokio::sync::{mpsc, oneshot};

/// Maximum appends that wait for the disk before callers must wait.
const QUEUE: usize = 1024;

/// The limits of a spool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpoolSettings {
    /// Maximum size, 1 MiB or more, beyond which appends are refused. Default 1 GiB.
    pub max_bytes: u64,
}

/// A spool to append to. Cheap to clone; the writing thread ends with the last clone, after all accepted records are
/// written.
#[derive(Clone)]
pub struct SpoolWriter {
    queue: mpsc::Sender<Append>,
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

    /// Appends records. The answers, in order, come after the commit is on disk, or say why a record is refused. After a
    /// refused record, later records of the message are refused too. A dropped future may have appended some.
    pub async fn append_each(&self, records: &[SpoolRecord]) -> Vec<Result<(), SpoolError>> {
        let answers = self.send(Rows::of_messages(records), false).await;
        answers.into_iter().map(|answer| answer.map(drop)).collect()
    }

    /// Appends records; returns once they are on disk.
    ///
    /// # Errors
    /// The first refusal; [`Self::append_each`] returns the refusal of each record.
    pub async fn append(&self, records: Vec<SpoolRecord>) -> Result<(), SpoolError> {
        self.append_each(&records).await.into_iter().collect()
    }

    /// Appends the records that must not overtake a waiting one. Returns for each, in order, true if appended, or the
    /// refusal.
    pub async fn append_behind(&self, records: &[SpoolRecord]) -> Vec<Result<bool, SpoolError>> {
        self.send(Rows::of_messages(records), true).await
    }

    /// Appends a change of a group: always, or only if records wait that the change must not overtake. Returns true if
    /// appended.
    ///
    /// # Errors
    /// The refusal.
    pub async fn append_group(&self, record: &GroupRecord, only_behind: bool) -> Result<bool, SpoolError> {
        self.send(Rows::of_group(record), only_behind).await.remove(0)
    }

    async fn send(&self, rows: Rows, only_behind: bool) -> AppendAnswers {
        let count = rows.len();
        let (answer, answered) = oneshot::channel();
        let closed = || vec![Err(SpoolError::Closed); count];
        match self.queue.send(Append { rows, only_behind, answer }).await {
            Ok(()) => answered.await.unwrap_or_else(|_| closed()),
            Err(_) => closed(),
        }
    }
}

impl Spool for SpoolWriter {
    fn append(&self, records: Vec<SpoolRecord>) -> Spooling<'_, Vec<Taken<()>>> {
        Box::pin(async move { taken(self.append_each(&records).await) })
    }

    fn may_hold(&self) -> bool {
        self.flag.is_set()
    }

    fn append_behind(&self, records: Vec<SpoolRecord>) -> Spooling<'_, Vec<Taken<bool>>> {
        Box::pin(async move { taken(self.append_behind(&records).await) })
    }

    fn append_group(&self, record: GroupRecord, only_behind: bool) -> Spooling<'_, Taken<bool>> {
        Box::pin(async move { Ok(self.append_group(&record, only_behind).await?) })
    }
}

fn taken<T>(answers: Vec<Result<T, SpoolError>>) -> Vec<Taken<T>> {
    answers.into_iter().map(|answer| Ok(answer?)).collect()
}

impl fmt::Debug for SpoolWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SpoolWriter")
    }
}
