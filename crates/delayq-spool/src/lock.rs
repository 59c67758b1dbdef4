//! The locks of a spool's folder: all users share a lock, and the compensator has a lease.

use crate::error::SpoolError;
use crate::file::open_beside;
use std::fs::{File, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::Path;

/// A lock that ends when dropped, or with the process, even by a kill.
#[derive(Debug)]
pub(crate) struct Lock(File);

// === impl Lock ===

impl Lock {
    /// All users lock the folder in shared mode; a salvage locks exclusively.
    pub(crate) fn share(dir: &Path) -> Result<Self, SpoolError> {
        Self::of_users(dir, File::try_lock_shared)
    }

    pub(crate) fn have_alone(dir: &Path) -> Result<Self, SpoolError> {
        Self::of_users(dir, File::try_lock)
    }

    fn of_users(dir: &Path, take: fn(&File) -> Result<(), TryLockError>) -> Result<Self, SpoolError> {
        let file = open(dir, "users.lock")?;
        match take(&file) {
            Ok(()) => Ok(Self(file)),
            Err(TryLockError::WouldBlock) => Err(SpoolError::InUse { path: dir.to_owned() }),
            Err(TryLockError::Error(error)) => Err(SpoolError::folder(dir, &error)),
        }
    }

    pub(crate) fn lease(dir: &Path, holder: &str) -> Result<Self, SpoolError> {
        let mut file = open(dir, "compensator.lock")?;
        let of = |error: std::io::Error| SpoolError::folder(dir, &error);
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut by = String::new();
                file.read_to_string(&mut by).map_err(of)?;
                return Err(SpoolError::Held { path: dir.to_owned(), by: by.trim().to_owned() });
            }
            Err(TryLockError::Error(error)) => return Err(of(error)),
        }
        let mut lock = Self(file);
        lock.0.set_len(0).and_then(|()| lock.0.rewind()).map_err(of)?;
        // A full disk has no room for the name; the lock itself holds, and waiting records must still get out.
        let _ = writeln!(lock.0, "{holder}");
        Ok(lock)
    }
}

impl Drop for Lock {
    /// Closing the file is not enough: a child process that is about to start holds a copy until its program runs.
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

fn open(dir: &Path, name: &str) -> Result<File, SpoolError> {
    open_beside(dir, name).map(|(file, _)| file)
}

#[cfg(test)]
mod tests {
    use super::Lock;
    use crate::error::SpoolError;
    use delayq_tests::folder::Folder;

    #[test]
    fn a_dropped_lock_is_free_though_a_child_still_has_its_file() {
        let folder = Folder::new("spool");
        let lease = Lock::lease(folder.path(), "the first").unwrap();
        let of_a_child = lease.0.try_clone().unwrap();
        let held = Lock::lease(folder.path(), "the second");
        assert!(matches!(held, Err(SpoolError::Held { by, .. }) if by == "the first"));
        drop(lease);
        Lock::lease(folder.path(), "the second").unwrap();
        drop(of_a_child);
    }
}
