//! Whether a record may wait in a spool: one byte in a file that all its processes read before every write.
//!
//! `1`: a record may wait; `0`: none does. It is set within the transaction that appends, before its commit, and cleared
//! within one in which nothing waits, so that nobody appends meanwhile: a `0` is never wrong. The byte is not synced: after a
//! power cut, the process that opens the spool sets it by what waits.

use crate::error::SpoolError;
use crate::file;
use rusqlite::{Connection, TransactionBehavior};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The flag of a spool. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Flag {
    file: Arc<File>,
    path: PathBuf,
}

// === impl Flag ===

impl Flag {
    /// Opens the flag of a folder.
    pub(crate) fn open(dir: &Path) -> Result<Self, SpoolError> {
        let (file, path) = file::open_beside(dir, "waiting.flag")?;
        Ok(Self { file: Arc::new(file), path })
    }

    /// Whether a record may wait.
    pub(crate) fn is_set(&self) -> bool {
        let mut byte = [0];
        match self.file.read_at(&mut byte, 0) {
            Ok(1) => byte != *b"0",
            // Never written, or the disk fails: then the database says what waits.
            _ => true,
        }
    }

    /// Sets it; to be called within a transaction that appends.
    pub(crate) fn set(&self) -> Result<(), SpoolError> {
        self.write(*b"1")
    }

    /// Sets or clears it by what waits. Writes nothing to the database. On a full disk it may stay set, which costs time only.
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

    fn write(&self, byte: [u8; 1]) -> Result<(), SpoolError> {
        self.file.write_all_at(&byte, 0).map_err(|error| SpoolError::of_write(&self.path, &error))
    }
}
