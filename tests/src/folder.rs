//! The temporary folders of a test process, and the janitor that clears folders and servers when the process ends.
//!
//! The janitor is a shell that waits for the end of its standard input, which this process holds. However this process
//! ends (returns, panics, is killed), the pipe closes; then the janitor kills the process groups that are still marked
//! in the run's folder and removes the folder. So servers that a whole run shares, which are never dropped, end too.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use tempfile::TempDir;

/// Waits for the end of input, kills the groups marked in the first folder, and removes all given folders, twice in
/// case a dying server wrote meanwhile.
const JANITOR: &str = r#"
cat >/dev/null
for mark in "$1"/groups/*; do
    [ -e "$mark" ] && kill -s KILL -- "-${mark##*/}"
done
rm -rf "$@" || { sleep 1; rm -rf "$@"; }
"#;

/// Memory in place of a disk, and the free space required: etcd allocates 64 MiB at once.
const MEMORY: &str = "/dev/shm";
const MEMORY_FREE: u64 = 512 << 20;

static RUN: OnceLock<Run> = OnceLock::new();
static NUMBER: AtomicU32 = AtomicU32::new(1);

/// A folder that is removed with its contents on drop.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
}

struct Run {
    path: PathBuf,
    in_memory: Option<PathBuf>,
    /// Held open, never written to: the end of the pipe is the janitor's signal.
    _janitor: Child,
}

// === impl Folder ===

impl Folder {
    /// Creates an empty folder; `label` is only for human readers.
    #[must_use]
    pub fn new(label: &str) -> Self {
        Self::within(&run().path, label)
    }

    /// Creates a folder in memory, for a server whose disk would dominate a measurement; on disk if the system lacks
    /// such memory.
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

    /// The path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of `name` in the folder.
    #[must_use]
    pub fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A server that is ending may still write a file; the janitor removes leftovers.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Until [`forget_group`].
pub(crate) fn mark_group(group: u32) {
    let mark = group_mark(group);
    fs::write(&mark, "").unwrap_or_else(|e| panic!("cannot write {}: {e}", mark.display()));
}

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
            // A separate group, so that Ctrl-C ends the tests and not the janitor.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("every system that runs these tests has a shell named sh");
        Run { path, in_memory, _janitor: janitor }
    })
}
