//! The producer's side of a spool.

use crate::committer::{Answers, Append, Committer, Request};
use crate::error::SpoolError;
use crate::flag::Flag;
use crate::row::{Row, key_of_group};
use delayq_core::id::Group;
use delayq_core::spool::{Spool, SpoolRecord, Spooling, Taken};
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

    /// Appends records, and says of each, in order, whether it is on disk or why it is refused. A refused one refuses the
    /// later ones of its message. A dropped future may have appended some.
    pub async fn append_each(&self, records: &[SpoolRecord]) -> Vec<Result<(), SpoolError>> {
        let answers = self.send(records, false).await;
        answers.into_iter().map(|answer| answer.map(drop)).collect()
    }

    /// Appends records; returns once they are on disk.
    ///
    /// # Errors
    /// Why the first of those that are refused is; [`Self::append_each`] says which are.
    pub async fn append(&self, records: Vec<SpoolRecord>) -> Result<(), SpoolError> {
        self.append_each(&records).await.into_iter().collect()
    }

    /// Appends the records whose message has one waiting, and says of each, in order, whether it did or why it is refused.
    pub async fn append_behind(&self, records: &[SpoolRecord]) -> Vec<Result<bool, SpoolError>> {
        self.send(records, true).await
    }

    /// Whether a record of a message of this group waits.
    ///
    /// # Errors
    /// The file cannot be read.
    pub async fn holds_group(&self, group: &Group) -> Result<bool, SpoolError> {
        let (answer, answered) = oneshot::channel();
        self.ask(Request::HoldsGroup(key_of_group(group), answer), answered).await?
    }

    async fn send(&self, records: &[SpoolRecord], only_behind: bool) -> Answers {
        let rows = records.iter().map(Row::from).collect();
        let (answer, answered) = oneshot::channel();
        let asked = self.ask(Request::Append(Append { rows, only_behind, answer }), answered).await;
        asked.unwrap_or_else(|closed| vec![Err(closed); records.len()])
    }

    async fn ask<T>(&self, request: Request, answered: oneshot::Receiver<T>) -> Result<T, SpoolError> {
        self.queue.send(request).await.map_err(|_| SpoolError::Closed)?;
        answered.await.map_err(|_| SpoolError::Closed)
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

    fn holds_group(&self, group: &Group) -> Spooling<'_, Taken<bool>> {
        let group = group.clone();
        Box::pin(async move { Ok(self.holds_group(&group).await?) })
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
