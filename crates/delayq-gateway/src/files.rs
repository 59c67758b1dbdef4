//! Files that are read again after a change.

use delayq_service::Shutdown;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Interval of looks: a changed file counts after this time.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Notices changes of files since it was made. Made before the files are read, it misses no change.
#[derive(Clone, Debug)]
pub(crate) struct Changes {
    paths: Vec<PathBuf>,
    seen: Vec<Option<Seen>>,
}

/// The modification time and the length of a file: two writes may share a tick of the clock.
type Seen = (SystemTime, u64);

// === impl Changes ===

impl Changes {
    pub(crate) fn of(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        let paths: Vec<PathBuf> = paths.into_iter().collect();
        let seen = paths.iter().map(|path| seen(path)).collect();
        Self { paths, seen }
    }

    /// Waits for a change of any of the files; `None` on shutdown.
    pub(crate) async fn next(&mut self, shutdown: &Shutdown) -> Option<()> {
        loop {
            shutdown.or(tokio::time::sleep(LOOK_EVERY)).await?;
            let now = self.paths.iter().map(|path| seen(path)).collect();
            if std::mem::replace(&mut self.seen, now) != self.seen {
                return Some(());
            }
        }
    }
}

fn seen(path: &Path) -> Option<Seen> {
    let meta = std::fs::metadata(path).ok()?;
    Some((meta.modified().ok()?, meta.len()))
}
