//! A disk that loses unsynced data in a power cut, for a test's programs.
//!
//! The library (`disk_shim.c`) keeps a copy of every synced page. A cut leaves these pages, and a random subset of
//! later writes: a disk writes pages in any order. Needs no privilege, so no environment skips its tests.

use crate::folder::Folder;
use crate::preload::Library;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

const SOURCE: &str = include_str!("disk_shim.c");

const PAGE: usize = 4096;

static LIBRARY: OnceLock<Library> = OnceLock::new();

/// A folder on such a disk.
#[derive(Debug)]
pub struct DiskShim {
    folder: Folder,
    synced: Folder,
}

/// The disk's response to syncs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syncs {
    /// Syncs work.
    Work,
    /// Syncs do nothing and report success: like a program without syncs.
    Lie,
    /// The sync with this number fails and loses its data; other syncs work.
    Fail(u32),
    /// The program is killed before the sync with this number; earlier syncs work.
    End(u32),
}

// === impl DiskShim ===

impl DiskShim {
    /// Creates an empty folder.
    #[must_use]
    pub fn new() -> Self {
        Self { folder: Folder::new("disk"), synced: Folder::new("disk-synced") }
    }

    /// The path of the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Puts the folder on this disk for a program, once started. Needs a C compiler named `cc`.
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

    /// The folder after a power cut that follows the kill of all programs; `luck` decides whether an unsynced page,
    /// length or name survives.
    pub fn cut(&self, mut luck: impl FnMut() -> bool) -> Folder {
        let after = Folder::new("disk-after");
        let read = |folder: &Path, name: &str| fs::read(folder.join(name)).unwrap_or_default();
        let named = names(&self.synced.join("names"));
        for name in names(self.path()) {
            // The shared-memory index vanishes with its processes.
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
