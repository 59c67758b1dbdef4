//! A steppable wall clock for a test's programs: a small library loaded before libc.
//!
//! The library (`clock_shim.c`) adds an offset to the wall clock of a process, and leaves the monotonic clock alone,
//! like a real step of the wall clock. The offset is in a file that every such process maps, so a step reaches all
//! running processes at once.

use crate::folder::Folder;
use crate::preload::Library;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, OnceLock};

const SOURCE: &str = include_str!("clock_shim.c");

static LIBRARY: OnceLock<Library> = OnceLock::new();

/// A steppable clock; copies share the same clock.
#[derive(Debug, Clone)]
pub struct ClockShim {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    folder: Folder,
    offset: File,
}

// === impl ClockShim ===

impl ClockShim {
    /// A clock that agrees with the machine's until stepped. Needs a C compiler named `cc`.
    #[must_use]
    pub fn new() -> Self {
        let folder = Folder::new("clock");
        let offset = File::create(folder.join("offset")).expect("a folder just made can be written to");
        let clock = Self { shared: Arc::new(Shared { folder, offset }) };
        clock.set_offset_ms(0);
        clock
    }

    /// Steps the clock to this many milliseconds ahead of the machine's (negative: behind).
    pub fn set_offset_ms(&self, offset_ms: i64) {
        // One write of eight aligned bytes: a reader sees either the old or the new offset.
        self.shared
            .offset
            .write_all_at(&offset_ms.to_ne_bytes(), 0)
            .expect("the offset's file is open for writing");
    }

    /// Makes a program use this clock once started.
    pub fn apply(&self, command: &mut Command) {
        command.env("LD_PRELOAD", library()).env("DELAYQ_CLOCK_OFFSET_FILE", self.offset_path());
    }

    /// Environment variables for a program that another process starts: the library and the offset's file.
    #[must_use]
    pub fn environment(&self) -> [(&'static str, PathBuf); 2] {
        [("LD_PRELOAD", library()), ("DELAYQ_CLOCK_OFFSET_FILE", self.offset_path())]
    }

    fn offset_path(&self) -> PathBuf {
        self.shared.folder.join("offset")
    }
}

impl Default for ClockShim {
    fn default() -> Self {
        Self::new()
    }
}

fn library() -> PathBuf {
    LIBRARY.get_or_init(|| Library::compile("clock_shim", SOURCE)).path.clone()
}
