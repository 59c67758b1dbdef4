//! Why a spool could not write or read a record, and whether a record was written.

use delayq_core::fate::Fate;
use delayq_core::message::MessageError;
use delayq_core::spool::SpoolRefusal;
use std::path::{Path, PathBuf};

/// The fault of a spool.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpoolError {
    /// The folder cannot be used.
    #[error("the spool's folder {} cannot be used: {why}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The system's error.
        why: String,
    },
    /// The file is of another kind. The file stays unchanged.
    #[error("{} is not a spool: {why}", path.display())]
    NotASpool {
        /// The file.
        path: PathBuf,
        /// The other kind, if known.
        why: String,
    },
    /// The file was written by a later version. The file stays unchanged.
    #[error("{} has spool format {found}, newer than this version knows ({known}): upgrade delayq here", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: i64,
        /// The newest format known here.
        known: i64,
    },
    /// There is no spool in the folder.
    #[error("there is no spool in {}: nothing was ever spooled there, or its database was deleted", path.display())]
    Missing {
        /// The folder.
        path: PathBuf,
    },
    /// Other files took the place of the open ones in the folder: no other process would read what is written to the open
    /// ones.
    #[error("{} is no longer the spool: {why}", path.display())]
    Moved {
        /// The folder.
        path: PathBuf,
        /// The change, and the remedy.
        why: String,
    },
    /// The file is damaged. [`crate::salvage_spool`] recovers what can be read.
    #[error("{} is damaged: {why}; stop all processes that use it, then: delayq spool salvage", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The finding.
        why: String,
    },
    /// Nothing is damaged: there is nothing to salvage.
    #[error("{} is not damaged: there is nothing to salvage", path.display())]
    Sound {
        /// The file.
        path: PathBuf,
    },
    /// Another compensator has the folder.
    #[error("the spool in {} is held by another compensator ({by})", path.display())]
    Held {
        /// The folder.
        path: PathBuf,
        /// The name that the compensator recorded.
        by: String,
    },
    /// The folder is in use, but the operation needs exclusive access.
    #[error("the spool in {} is in use: stop its producers and its compensator first", path.display())]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// The spool's own limit is reached.
    #[error("the spool is full: {bytes} of {max_bytes} bytes are used")]
    Full {
        /// Its size.
        bytes: u64,
        /// Its maximum size.
        max_bytes: u64,
    },
    /// The disk is full.
    #[error("the disk of {} is full", path.display())]
    DiskFull {
        /// The file.
        path: PathBuf,
    },
    /// Other processes kept the file locked for too long.
    #[error("{} is locked by another process", path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// The message breaks a limit.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// The disk failed, perhaps after the record was written.
    #[error("{} failed: {why}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        why: String,
    },
    /// The spool's thread is gone.
    #[error("the spool is closed")]
    Closed,
}

// === impl SpoolError ===

impl SpoolError {
    /// The fate of the records: some errors come after the write.
    pub fn fate(&self) -> Fate {
        match self {
            Self::Io { .. } | Self::Closed => Fate::Unknown,
            _ => Fate::NotApplied,
        }
    }

    pub(crate) fn folder(path: &Path, error: &std::io::Error) -> Self {
        Self::Folder { path: path.to_owned(), why: error.to_string() }
    }

    pub(crate) fn of_write(file: &Path, error: &std::io::Error) -> Self {
        let path = file.to_owned();
        match error.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => Self::DiskFull { path },
            _ => Self::Io { path, why: error.to_string() },
        }
    }

    pub(crate) fn of(file: &Path, error: &rusqlite::Error) -> Self {
        use rusqlite::ErrorCode;
        let path = file.to_owned();
        let why = error.to_string();
        match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => {
                let why = format!(
                    "{why}; if it was a spool, its first page is damaged: stop all processes that use it, \
                     then: delayq spool salvage"
                );
                Self::NotASpool { path, why }
            }
            Some(ErrorCode::DatabaseCorrupt) => Self::Damaged { path, why },
            Some(ErrorCode::DiskFull) => Self::DiskFull { path },
            // The index of the log grows before anything is written.
            Some(ErrorCode::SystemIoFailure) if is_of_index(error) => Self::DiskFull { path },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy { path },
            Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied | ErrorCode::ReadOnly) => {
                Self::Folder { path, why }
            }
            _ => Self::Io { path, why },
        }
    }
}

/// True if SQLite could not enlarge the index of the log; SQLite reports that as a failure of the disk.
fn is_of_index(error: &rusqlite::Error) -> bool {
    error.sqlite_error().is_some_and(|error| error.extended_code == rusqlite::ffi::SQLITE_IOERR_SHMSIZE)
}

impl From<SpoolError> for SpoolRefusal {
    fn from(error: SpoolError) -> Self {
        Self { fate: error.fate(), why: error.to_string() }
    }
}
