//! A disk that forgets, when its power is cut, what was not synced: for programs that a test starts.
//!
//! The library (`disk_shim.c`) keeps a copy of every page that a program has synced. A cut leaves those, and of what was
//! written since any part: a disk writes pages in any order. It needs no privilege, so no environment skips its tests.

use crate::folder::Folder;
use crate::preload::Library;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

const SOURCE: &str = include_str!("disk_shim.c");

/// The unit that is written whole or not at all.
const PAGE: usize = 4096;

static LIBRARY: OnceLock<Library> = OnceLock::new();

/// A folder on such a disk.
#[derive(Debug)]
pub struct DiskShim {
    folder: Folder,
    synced: Folder,
}

/// What the disk does when it is to sync a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syncs {
    /// What it is told.
    Work,
    /// Nothing, and it says that all is well: what a program without syncs amounts to.
    Lie,
    /// The one of this number fails, and forgets what it should have written; the others work.
    Fail(u32),
    /// What it is told; in front of the one of this number the program is killed.
    End(u32),
}

// === impl DiskShim ===

impl DiskShim {
    /// An empty folder.
    #[must_use]
    pub fn new() -> Self {
        Self { folder: Folder::new("disk"), synced: Folder::new("disk-synced") }
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Puts the folder on this disk for a program, once it starts.
    ///
    /// # Panics
    /// If there is no C compiler named `cc`.
    pub fn apply(&self, command: &mut Command, syncs: Syncs) {
        let library = LIBRARY.get_or_init(|| Library::compile("disk_shim", SOURCE));
        let mode = match syncs {
            Syncs::Work => String::new(),
            Syncs::Lie => "lies".to_owned(),
            Syncs::Fail(number) => format!("fails:{number}"),
            Syncs::End(number) => format!("ends:{number}"),
        };
        command.env("LD_PRELOAD", &library.path).env("DELAYQ_DISK_MODE", mode);
        command.env("DELAYQ_DISK", self.path()).env("DELAYQ_DISK_SYNCED", self.synced.path());
    }

    /// What is there after a power cut, once all programs were killed; `luck` says of each page, length and name that was
    /// not synced whether it is there all the same.
    ///
    /// # Panics
    /// If a file cannot be read or written.
    pub fn cut(&self, mut luck: impl FnMut() -> bool) -> Folder {
        let after = Folder::new("disk-after");
        let read = |folder: &Path, name: &str| fs::read(folder.join(name)).unwrap_or_default();
        let named = names(&self.synced.join("names"));
        for name in names(self.path()) {
            // The index that processes share in memory is gone with them.
            if name.ends_with("-shm") || !named.contains(&name) && !luck() {
                continue;
            }
            let (old, new) = (read(self.synced.path(), &name), read(self.path(), &name));
            let length = if luck() { new.len() } else { old.len() };
            let mut bytes = vec![0; length];
            for (n, page) in bytes.chunks_mut(PAGE).enumerate() {
                let from = if luck() { &new } else { &old };
                let there = from.get(n * PAGE..).unwrap_or_default();
                let there = &there[..there.len().min(page.len())];
                page[..there.len()].copy_from_slice(there);
            }
            fs::write(after.join(&name), bytes).expect("a folder just made can be written to");
        }
        after
    }
}

impl Default for DiskShim {
    fn default() -> Self {
        Self::new()
    }
}

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let files = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
    files.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}
