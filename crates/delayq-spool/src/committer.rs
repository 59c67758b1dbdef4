//! The one thread of a process that writes to its spool: records that wait at the same time share a commit.

use crate::error::SpoolError;
use crate::flag::Flag;
use crate::row::{INSERT, Row};
use crate::{clock, file, lost};
use rusqlite::{Connection, Transaction, TransactionBehavior};
use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use tokio::sync::{mpsc, oneshot};

/// Maximum bytes of one commit, so that no caller waits long for others.
const COMMIT_BYTES: usize = 16 * 1024 * 1024;

/// Records that a caller appends together.
pub(crate) struct Append {
    pub(crate) rows: Vec<Row>,
    /// Each only if something waits already that it must not overtake.
    pub(crate) only_behind: bool,
    pub(crate) answer: oneshot::Sender<Answers>,
}

/// Of each record of an append whether it was appended, or why it is refused.
pub(crate) type Answers = Vec<Result<bool, SpoolError>>;

pub(crate) struct Committer {
    connection: Connection,
    path: PathBuf,
    max_bytes: u64,
    flag: Flag,
    /// Held while the thread runs.
    _shared: File,
}

/// The bytes that are left.
struct Room {
    left: u64,
    max_bytes: u64,
}

// === impl Append ===

impl Append {
    fn bytes(&self) -> usize {
        self.rows.iter().map(Row::bytes).sum()
    }

    /// Whether any row is to be appended, by what waits now.
    fn has_work(&self, connection: &Connection) -> rusqlite::Result<bool> {
        for row in &self.rows {
            if self.wants(row, connection)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Inserts the rows that are wanted, as far as there is room.
    fn insert(
        &self,
        transaction: &Transaction<'_>,
        room: &mut Room,
        now_ms: u64,
    ) -> rusqlite::Result<Answers> {
        // Why a message's record is refused: its later ones must not overtake it.
        let mut refused: HashMap<i64, SpoolError> = HashMap::new();
        let mut insert = transaction.prepare_cached(INSERT)?;
        let mut answers = Vec::with_capacity(self.rows.len());
        for row in &self.rows {
            let taken = match refused.get(&row.key()) {
                _ if !self.wants(row, transaction)? => Ok(None),
                Some(error) => Err(error.clone()),
                None => room.take(row).map(Some),
            };
            match taken {
                Ok(Some(body)) => row.insert(transaction, &mut insert, now_ms, body)?,
                Ok(None) => {}
                Err(ref error) => drop(refused.insert(row.key(), error.clone())),
            }
            answers.push(taken.map(|body| body.is_some()));
        }
        Ok(answers)
    }

    fn wants(&self, row: &Row, connection: &Connection) -> rusqlite::Result<bool> {
        Ok(!self.only_behind || row.has_to_wait(connection)?)
    }
}

// === impl Committer ===

impl Committer {
    pub(crate) fn open(dir: &Path, max_bytes: u64) -> Result<Self, SpoolError> {
        let shared = file::share(dir)?;
        let flag = Flag::open(dir)?;
        let mut connection = file::open(dir)?;
        let path = dir.join(file::NAME);
        lost::note(&mut connection, &flag, &path)?;
        flag.renew(&mut connection)?;
        // The log, which duplicates what the database takes, may use a quarter of the bound.
        let pages = (max_bytes / 4 / 4096).clamp(16, 1000);
        let set = connection.pragma_update(None, "wal_autocheckpoint", pages);
        set.map_err(|error| SpoolError::of(&path, &error))?;
        Ok(Self { connection, path, max_bytes, flag, _shared: shared })
    }

    pub(crate) fn flag(&self) -> &Flag {
        &self.flag
    }

    /// Runs until the last [`crate::SpoolWriter`] is dropped and all accepted records are written.
    pub(crate) fn run(mut self, mut queue: mpsc::Receiver<Append>) {
        while let Some(first) = queue.blocking_recv() {
            let (mut bytes, mut appends, mut next) = (0, Vec::new(), Ok(first));
            while let Ok(append) = next {
                bytes += append.bytes();
                appends.push(append);
                if bytes >= COMMIT_BYTES {
                    break;
                }
                next = queue.try_recv();
            }
            let answers = self.commit(&appends).unwrap_or_else(|error| {
                appends.iter().map(|append| vec![Err(error.clone()); append.rows.len()]).collect()
            });
            for (append, answers) in appends.into_iter().zip(answers) {
                // The caller may be gone: what is appended is resubmitted all the same.
                let _ = append.answer.send(answers);
            }
        }
    }

    /// Writes all in one transaction; no caller gets an answer before it is on disk.
    fn commit(&mut self, appends: &[Append]) -> Result<Vec<Answers>, SpoolError> {
        // Asked first without a lock: most writes have nothing to wait for.
        let works: rusqlite::Result<Vec<_>> =
            appends.iter().map(|append| append.has_work(&self.connection)).collect();
        if !works.map_err(|error| SpoolError::of(&self.path, &error))?.contains(&true) {
            return Ok(appends.iter().map(|append| vec![Ok(false); append.rows.len()]).collect());
        }
        let written = self.write(appends);
        // What does not wait is not to cost every write a question. One that was locked out has set nothing.
        if matches!(&written, Err(error) if !matches!(error, SpoolError::Busy { .. })) && self.flag.is_set() {
            let _ = self.flag.renew(&mut self.connection);
        }
        written
    }

    fn write(&mut self, appends: &[Append]) -> Result<Vec<Answers>, SpoolError> {
        let mut room = self.room(appends)?;
        let Self { connection, path, flag, .. } = self;
        let of = |error: rusqlite::Error| SpoolError::of(path, &error);
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(of)?;
        let now_ms = clock::now().get();
        let insert = |append: &Append| append.insert(&transaction, &mut room, now_ms);
        let answers: Vec<Answers> =
            appends.iter().map(insert).collect::<rusqlite::Result<_>>().map_err(of)?;
        let count = answers.iter().flatten().filter(|answer| matches!(answer, Ok(true))).count() as u64;
        if count == 0 {
            return Ok(answers);
        }
        flag.set()?;
        let last = transaction.last_insert_rowid();
        transaction.execute("UPDATE books SET spooled = spooled + ?", [count]).map_err(of)?;
        transaction.commit().map_err(of)?;
        flag.note_last(last.cast_unsigned());
        Ok(answers)
    }

    /// The bytes still available; empties the log first if they would not suffice.
    fn room(&self, appends: &[Append]) -> Result<Room, SpoolError> {
        let max_bytes = self.max_bytes;
        let room = |used: u64| Room { left: max_bytes.saturating_sub(used), max_bytes };
        let wanted: u64 = appends.iter().flat_map(|append| &append.rows).map(Row::cost).sum();
        let now = room(file::used_bytes(&self.connection, &self.path)?);
        if now.left >= wanted {
            return Ok(now);
        }
        file::empty_log(&self.connection, &self.path)?;
        Ok(room(file::used_bytes(&self.connection, &self.path)?))
    }
}

// === impl Room ===

impl Room {
    /// The bytes of a row, if there is room for them.
    fn take<'r>(&mut self, row: &'r Row) -> Result<&'r [u8], SpoolError> {
        let body = row.body()?;
        match self.left.checked_sub(row.cost()) {
            Some(left) => self.left = left,
            None => {
                let bytes = self.max_bytes.saturating_sub(self.left);
                return Err(SpoolError::Full { bytes, max_bytes: self.max_bytes });
            }
        }
        Ok(body)
    }
}
