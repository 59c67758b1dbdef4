//! The temporary folders of a test process, and the janitor that clears them and its servers when the process ends.
//!
//! The janitor is a shell that waits for the end of its standard input, which this process holds. However this process
//! ends (returns, panics, is killed), the pipe closes; then the janitor kills the process groups that are still marked
//! in the run's folder and removes the folder. So servers that a whole run shares, which are never dropped, end with it
//! too.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use tempfile::TempDir;

/// Waits for the end of input, ends the groups marked in the first folder, and removes all that it is given, twice in case a
/// server wrote into them meanwhile.
const JANITOR: &str = r#"
cat >/dev/null
for mark in "$1"/groups/*; do
    [ -e "$mark" ] && kill -s KILL -- "-${mark##*/}"
done
rm -rf "$@" || { sleep 1; rm -rf "$@"; }
"#;

/// Where memory stands in for a disk, and how much of it has to be free: etcd allocates 64 MiB at once.
const MEMORY: &str = "/dev/shm";
const MEMORY_FREE: u64 = 512 << 20;

static RUN: OnceLock<Run> = OnceLock::new();
static NUMBER: AtomicU32 = AtomicU32::new(1);

/// A folder that is removed with its contents when this is dropped.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
}

struct Run {
    path: PathBuf,
    /// Its folder in memory, where the system has one.
    in_memory: Option<PathBuf>,
    /// Held open, never written to: its end is the janitor's signal.
    _janitor: Child,
}

// === impl Folder ===

impl Folder {
    /// Creates an empty folder; `label` is only for human readers.
    ///
    /// # Panics
    /// If the folder cannot be created.
    #[must_use]
    pub fn new(label: &str) -> Self {
        Self::within(&run().path, label)
    }

    /// The same in memory, for a server whose disk would be what a test measures; on disk where the system has no memory for
    /// it.
    ///
    /// # Panics
    /// If the folder cannot be created.
    #[must_use]
    pub fn in_memory(label: &str) -> Self {
        let run = run();
        let is_roomy = |_: &&PathBuf| {
            rustix::fs::statvfs(MEMORY).is_ok_and(|system| system.f_bavail * system.f_frsize >= MEMORY_FREE)
        };
        Self::within(run.in_memory.as_ref().filter(is_roomy).unwrap_or(&run.path), label)
    }

    fn within(parent: &Path, label: &str) -> Self {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("{label}-{number}"));
        fs::create_dir(&path).unwrap_or_else(|e| panic!("cannot make {}: {e}", path.display()));
        Self { path }
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of `name` in it.
    #[must_use]
    pub fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A server that is just ending may still write a file; the janitor removes what stays.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Remembers a process group for the janitor, until [`forget_group`].
pub(crate) fn mark_group(group: u32) {
    let mark = group_mark(group);
    fs::write(&mark, "").unwrap_or_else(|e| panic!("cannot write {}: {e}", mark.display()));
}

/// Removes a process group that has ended from the janitor's list.
pub(crate) fn forget_group(group: u32) {
    let _ = fs::remove_file(group_mark(group));
}

fn group_mark(group: u32) -> PathBuf {
    run().path.join("groups").join(group.to_string())
}

fn run() -> &'static Run {
    RUN.get_or_init(|| {
        let named = |folder: &Path| tempfile::Builder::new().prefix("delayq-tests-").tempdir_in(folder);
        let path = named(&std::env::temp_dir())
            .expect("a test run needs a folder for temporary files that it may write to")
            .keep();
        let in_memory = named(MEMORY.as_ref()).ok().map(TempDir::keep);
        fs::create_dir(path.join("groups")).expect("a folder just made can be written to");
        let janitor = Command::new("sh")
            .args(["-c", JANITOR, "janitor"])
            .arg(&path)
            .args(&in_memory)
            // Its own group, so that Ctrl-C ends the tests and not the janitor.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("every system that runs these tests has a shell named sh");
        Run { path, in_memory, _janitor: janitor }
    })
}
