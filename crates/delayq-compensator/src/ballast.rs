//! Room that is reserved on the spool's disk: every step writes to the spool, and a full disk must not block waiting
//! records.

use rustix::fs::{FallocateFlags, fallocate, statvfs};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Enough for the log of the spool, which is merged into the database first (producers keep the log below 4 MiB and a
/// commit), and for a step with the largest message.
pub(crate) const BALLAST_BYTES: u64 = 8 << 20;

/// The file `room` of that size in the spool's folder, to be given up when needed.
#[derive(Clone, Debug)]
pub(crate) struct Ballast {
    folder: PathBuf,
}

// === impl Ballast ===

impl Ballast {
    pub(crate) fn of(spool: &Path) -> Self {
        Self { folder: spool.to_owned() }
    }

    /// Reserves the file if needed. Blocks on the disk.
    ///
    /// # Errors
    /// The disk has less than twice as much: the producers need that more.
    pub(crate) fn take(&self) -> io::Result<()> {
        if fs::metadata(self.path()).is_ok_and(|file| file.len() == BALLAST_BYTES) {
            return Ok(());
        }
        let disk = statvfs(&self.folder)?;
        if disk.f_bavail.saturating_mul(disk.f_frsize) < 2 * BALLAST_BYTES {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let file = File::create(self.path())?;
        fallocate(file, FallocateFlags::empty(), 0, BALLAST_BYTES).inspect_err(|_| {
            self.give();
        })?;
        Ok(())
    }

    /// Gives up the file; false if there is none.
    pub(crate) fn give(&self) -> bool {
        fs::remove_file(self.path()).is_ok()
    }

    fn path(&self) -> PathBuf {
        self.folder.join("room")
    }
}
