//! Appending: one write and one fsync per batch and file.
//!
//! Only data followed by an fsync was confirmed. So a half-written batch is cut off again, and so is an incomplete last
//! line left by a killed process; those messages are delivered again. A file with any other ending was written by
//! another program, and is left unchanged.

use super::beneath::Beneath;
use super::{FileConfig, check};
use crate::sinks::record;
use crate::{CheckError, Parcel, Sink};
use async_trait::async_trait;
use delayq_service::brokers::{Outcome, Outcomes};
use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum number of open files; beyond the limit one file is closed.
const MAX_OPEN: usize = 64;

pub(crate) struct FileSink {
    config: Arc<FileConfig>,
    open: Arc<Mutex<BTreeMap<PathBuf, Arc<Mutex<Appender>>>>>,
}

struct Appender {
    path: PathBuf,
    file: File,
    length: u64,
}

// === impl FileSink ===

impl FileSink {
    pub(crate) fn new(config: FileConfig) -> Self {
        Self { config: Arc::new(config), open: Arc::default() }
    }
}

#[async_trait]
impl Sink for FileSink {
    async fn check(&self, destination: Option<&str>) -> Result<Vec<String>, CheckError> {
        check::folder(&self.config.dir)?;
        if let Some(destination) = destination {
            check::path(&self.config.dir, destination).map_err(CheckError::Refused)?;
        }
        Ok(Vec::new())
    }

    async fn deliver(&self, parcels: &[Parcel], outcomes: &Arc<Outcomes>) {
        let mut files: BTreeMap<&str, (Vec<usize>, Vec<u8>)> = BTreeMap::new();
        for (i, parcel) in parcels.iter().enumerate() {
            let (indices, lines) = files.entry(&parcel.destination).or_default();
            indices.push(i);
            record::append_line(parcel, lines);
        }
        for (destination, (indices, lines)) in files {
            let outcome = match check::path(&self.config.dir, destination) {
                Err(reason) => Outcome::rejected(reason),
                Ok(path) => {
                    let (config, open) = (self.config.clone(), self.open.clone());
                    let appended =
                        tokio::task::spawn_blocking(move || append(&config, &open, &path, &lines)).await;
                    match appended.unwrap_or_else(|panic| Err(io::Error::other(panic))) {
                        Ok(()) => Outcome::Delivered,
                        Err(error) => Outcome::down(format!("{destination}: {error}")),
                    }
                }
            };
            indices.into_iter().for_each(|i| outcomes.put(i, outcome.clone()));
        }
    }

    async fn close(&self) -> Result<(), String> {
        lock(&self.open).clear();
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // An appender left behind by a panic measures its file again before use.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Also fsyncs. After an error the file is closed; the next batch reopens it.
fn append(
    config: &FileConfig,
    open: &Mutex<BTreeMap<PathBuf, Arc<Mutex<Appender>>>>,
    path: &Path,
    lines: &[u8],
) -> io::Result<()> {
    let appender = {
        let mut files = lock(open);
        match files.get(path) {
            Some(appender) => appender.clone(),
            None => {
                if files.len() >= MAX_OPEN {
                    files.pop_first();
                }
                let appender = Arc::new(Mutex::new(Appender::open(config, path)?));
                files.insert(path.to_owned(), appender.clone());
                appender
            }
        }
    };
    let result = lock(&appender).append(config, lines);
    if result.is_err() {
        lock(open).remove(path);
    }
    result
}

// === impl Appender ===

impl Appender {
    fn open(config: &FileConfig, path: &Path) -> io::Result<Self> {
        let beneath = beneath(config, path)?;
        let file = beneath.open()?;
        file.try_lock()
            .map_err(|error| io::Error::other(format!("another process writes to the file: {error}")))?;
        let length = whole_lines(&file)?;
        if length < file.metadata()?.len() {
            if !record::may_begin_with(&head(&file, length)?) {
                return Err(io::Error::other(
                    "the file does not end with a line of deliveries; move it away",
                ));
            }
            tracing::warn!(path = %path.display(), "cut off a line that was never confirmed");
            file.set_len(length)?;
        }
        beneath.sync()?;
        Ok(Self { path: path.to_owned(), file, length })
    }

    fn append(&mut self, config: &FileConfig, lines: &[u8]) -> io::Result<()> {
        if !self.is_in_place() {
            *self = Self::open(config, &self.path)?;
        }
        let full = |size: u64| self.length > 0 && self.length + lines.len() as u64 > size;
        if config.rotate_at.is_some_and(|size| full(size.bytes())) {
            beneath(config, &self.path)?.set_aside()?;
            *self = Self::open(config, &self.path)?;
        }
        self.file.seek(SeekFrom::Start(self.length))?;
        let written = self.file.write_all(lines).and_then(|()| self.file.sync_data());
        if written.is_ok() && !self.is_in_place() {
            return Err(io::Error::other("the file was removed while being written"));
        }
        match written {
            Ok(()) => self.length += lines.len() as u64,
            // Best effort: the remainder is cut off on reopening, or consists of whole lines.
            Err(_) => drop(self.file.set_len(self.length)),
        }
        written
    }

    /// False if the file was deleted or replaced: nothing would read it.
    fn is_in_place(&self) -> bool {
        let same = |here: &Metadata, there: &Metadata| (here.dev(), here.ino()) == (there.dev(), there.ino());
        matches!((self.file.metadata(), std::fs::metadata(&self.path)), (Ok(here), Ok(there)) if same(&here, &there))
    }
}

fn beneath<'p>(config: &FileConfig, path: &'p Path) -> io::Result<Beneath<'p>> {
    Beneath::find(&config.dir, path.strip_prefix(&config.dir).map_err(io::Error::other)?)
}

fn head(mut file: &File, length: u64) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    file.seek(SeekFrom::Start(length))?;
    file.take(record::HEAD.len() as u64).read_to_end(&mut head)?;
    Ok(head)
}

/// Up to the last whole line.
fn whole_lines(mut file: &File) -> io::Result<u64> {
    const BLOCK: u64 = 64 * 1024;
    let mut end = file.metadata()?.len();
    while end > 0 {
        let start = end.saturating_sub(BLOCK);
        let mut block = vec![0; usize::try_from(end - start).expect("a block fits into memory")];
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(&mut block)?;
        if let Some(at) = block.iter().rposition(|&byte| byte == b'\n') {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}
