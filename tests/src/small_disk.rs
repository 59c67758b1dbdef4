//! A small disk (a tmpfs), if the system allows mounting.

use crate::folder::Folder;
use crate::remark::skipped;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A mounted disk. Dropping the disk unmounts it.
#[derive(Debug)]
pub struct SmallDisk {
    folder: Folder,
}

// === impl SmallDisk ===

impl SmallDisk {
    /// Mounts an empty disk of this many KiB. `None` without permission: the test is then [`skipped`].
    #[must_use]
    pub fn mount(kib: u32) -> Option<Self> {
        let folder = Folder::new("small-disk");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={kib}k"), "tmpfs"]).arg(folder.path());
        let mounted = mount.output().is_ok_and(|done| done.status.success());
        if !mounted {
            skipped("it needs to mount a tmpfs");
        }
        mounted.then_some(Self { folder })
    }

    /// The path.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Fills the remaining space.
    pub fn fill(&self) {
        let filling = OpenOptions::new().create(true).append(true).open(self.filling());
        let mut filling: File =
            filling.unwrap_or_else(|e| panic!("cannot fill {}: {e}", self.path().display()));
        while filling.write_all(&[0; 4096]).is_ok() {}
    }

    /// Frees the space that [`Self::fill`] took.
    pub fn clear(&self) {
        let _ = std::fs::remove_file(self.filling());
    }

    fn filling(&self) -> PathBuf {
        self.folder.join("filling")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Unmounts lazily: a process may still be closing a file.
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}
