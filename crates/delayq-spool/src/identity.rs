//! The identity of the files that a process has open, to be compared with the folder.
//!
//! A process can still write to a spool that was deleted, replaced, moved or mounted over, but no other process reads those
//! writes. So a commit counts only if the folder's path leads to the same files before and after the commit.

use crate::error::SpoolError;
use crate::file;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const NAMES: [&str; 5] = [file::NAME, "spool.db-wal", "spool.db-shm", "waiting.flag", "users.lock"];

/// Device and inode; `None`: there is none.
type Id = Option<(u64, u64)>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    dir: PathBuf,
    folder: Id,
    files: [Id; NAMES.len()],
}

// === impl Identity ===

impl Identity {
    pub(crate) fn of(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), folder: id(dir), files: NAMES.map(|name| id(&dir.join(name))) }
    }

    /// [`SpoolError::Moved`] names the first changed file.
    pub(crate) fn check(&self) -> Result<(), SpoolError> {
        let now = Self::of(&self.dir);
        let Some(changed) = (0..NAMES.len()).find(|&i| now.files[i] != self.files[i]) else { return Ok(()) };
        let what = match now.files[changed] {
            None => "was deleted, moved or mounted over",
            Some(_) => "is another file than this process has open",
        };
        let name = NAMES[changed];
        let cure = match (self.may_reopen(&now), now.folder == self.folder) {
            (true, _) => "opening it again",
            (false, true) => "restart all processes that use this spool",
            (false, false) => "move the folder back, or restart all processes that use this spool",
        };
        Err(SpoolError::Moved { path: self.dir.clone(), why: format!("{name} {what}; {cure}") })
    }

    /// True if the folder may be opened again although the files changed: no two logs are mixed, and no spool begins in a
    /// folder that took the place of another, such as the mount point of a missing disk.
    pub(crate) fn can_reopen(&self) -> bool {
        self.may_reopen(&Self::of(&self.dir))
    }

    fn may_reopen(&self, now: &Self) -> bool {
        let is_changed = |i: usize| now.files[i] != self.files[i];
        match (now.files[0].is_some(), is_changed(0), is_changed(1), is_changed(2)) {
            (true, false, wal, index) => !wal && !index,
            (true, true, wal, index) => wal && index,
            (false, ..) => now.folder.is_some() && now.folder == self.folder,
        }
    }
}

fn id(path: &Path) -> Id {
    fs::metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spool_is_opened_again_unless_that_mixes_logs_or_begins_one_in_another_folder() {
        let spool = |folder, files: [u64; 3]| Identity {
            dir: PathBuf::from("/spool"),
            folder: Some((1, folder)),
            files: [files[0], files[1], files[2], 8, 9].map(|inode| (inode > 0).then_some((1, inode))),
        };
        let open = spool(1, [5, 6, 7]);
        for (now, expected) in [
            (spool(1, [0, 0, 0]), true),
            (spool(1, [0, 6, 7]), true),
            (spool(2, [0, 0, 0]), false),
            (spool(2, [15, 16, 17]), true),
            (spool(1, [15, 6, 7]), false),
            (spool(1, [15, 0, 0]), true),
            (spool(1, [5, 0, 7]), false),
            (spool(1, [5, 16, 17]), false),
            (spool(1, [5, 6, 7]), true),
        ] {
            assert_eq!(open.may_reopen(&now), expected, "{now:?}");
        }
    }
}
