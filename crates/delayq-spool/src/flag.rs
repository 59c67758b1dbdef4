//! `waiting.flag`, a file beside the database by which the processes of a spool inform each other. The file is never synced.
//!
//! ```text
//! 0  1  `1`: a record may wait; `0`: none does
//! 1  8  the last number that was given, big-endian
//! 9  8  the same again: of two that differ, one was not written whole
//! ```
//! The flag is read before every write. An appending transaction sets the flag before the commit. A transaction in which no
//! record waits clears the flag; nobody appends meanwhile, so a `0` is never wrong. After a power cut, the process that
//! opens the spool sets the flag by the waiting records. The last number is a witness of commits that a damaged log drops:
//! the number is written after the commit, so the witness is never newer than the synced log.

use crate::error::SpoolError;
use crate::file;
use rusqlite::{Connection, TransactionBehavior};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

const NAME: &str = "waiting.flag";

/// The flag of a spool. Cheap to clone; clones share the file.
#[derive(Clone, Debug)]
pub(crate) struct Flag {
    file: Arc<RwLock<File>>,
    path: PathBuf,
}

// === impl Flag ===

impl Flag {
    pub(crate) fn open(dir: &Path) -> Result<Self, SpoolError> {
        let (file, path) = file::open_beside(dir, NAME)?;
        Ok(Self { file: Arc::new(RwLock::new(file)), path })
    }

    /// For all clones.
    pub(crate) fn reopen(&self, dir: &Path) -> Result<(), SpoolError> {
        let (file, _) = file::open_beside(dir, NAME)?;
        *self.file.write().unwrap_or_else(PoisonError::into_inner) = file;
        Ok(())
    }

    fn file(&self) -> RwLockReadGuard<'_, File> {
        self.file.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_set(&self) -> bool {
        let mut byte = [0];
        match self.file().read_at(&mut byte, 0) {
            Ok(1) => byte != *b"0",
            // Never written, or the disk fails: then the database is asked.
            _ => true,
        }
    }

    /// To be called within a transaction that appends.
    pub(crate) fn set(&self) -> Result<(), SpoolError> {
        // The caller's transaction keeps others from clearing the flag meanwhile.
        if self.is_set() { Ok(()) } else { self.write(*b"1") }
    }

    /// Sets or clears the flag by the waiting records. Writes nothing to the database. On a full disk the flag may stay set,
    /// which costs time only.
    pub(crate) fn renew(&self, connection: &mut Connection) -> Result<(), SpoolError> {
        let of = |error: rusqlite::Error| SpoolError::of(&self.path, &error);
        let alone = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(of)?;
        let waits = alone.prepare_cached("SELECT 1 FROM waiting LIMIT 1").and_then(|mut any| any.exists([]));
        let written = self.write(if waits.map_err(of)? { *b"1" } else { *b"0" });
        if !self.is_set() {
            written?;
        }
        alone.rollback().map_err(of)
    }

    /// Notes the last number that was given; to be called once the commit is on disk. If the write fails, or another process
    /// has noted a later number before, the only harm is that a damaged log may be noticed late or never.
    pub(crate) fn note_last(&self, seq: u64) {
        let number = seq.to_be_bytes();
        let _ = self.file().write_all_at(&[number, number].concat(), 1);
    }

    pub(crate) fn last(&self) -> Option<u64> {
        let mut numbers = [[0; 8]; 2];
        self.file().read_exact_at(numbers.as_flattened_mut(), 1).ok()?;
        (numbers[0] == numbers[1]).then(|| u64::from_be_bytes(numbers[0]))
    }

    fn write(&self, byte: [u8; 1]) -> Result<(), SpoolError> {
        self.file().write_all_at(&byte, 0).map_err(|error| SpoolError::of_write(&self.path, &error))
    }
}
