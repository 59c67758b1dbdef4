//! A readable copy of a damaged database: SQLite refuses a file with a damaged first page or a missing end.
//!
//! The first page has the root pages of the tables. The same statements create every spool, so the first page of a new spool
//! fits. A missing end is filled with zeroes: these pages are unreadable, like other damaged pages.

use crate::error::SpoolError;
use crate::file;
use rusqlite::Connection;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const PAGE_BYTES: u64 = 4096;
type Head = [u8; PAGE_BYTES as usize];
/// The first bytes of every database of SQLite.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// Offsets in the header: the number of pages, and the first free page.
const PAGES_AT: usize = 28;
const FREE_AT: usize = 32;

pub(crate) struct Copy {
    pub(crate) path: PathBuf,
    pub(crate) connection: Connection,
    pub(crate) is_headless: bool,
}

// === impl Copy ===

impl Copy {
    /// Includes the log, and repairs the copies.
    pub(crate) fn of(original: &Path, folder: &Path) -> Result<Self, SpoolError> {
        let of = |error: io::Error| SpoolError::folder(folder, &error);
        let head = head_of_a_new_spool(&folder.join("new"))?;
        let path = folder.join(file::NAME);
        fs::copy(original, &path).map_err(of)?;
        if file::log_of(original).exists() {
            fs::copy(file::log_of(original), file::log_of(&path)).map_err(of)?;
        }
        let is_headless = mend(&path, head).map_err(of)?;
        let connection = Connection::open(&path).map_err(|error| SpoolError::of(original, &error))?;
        Ok(Self { path: original.to_owned(), connection, is_headless })
    }
}

fn head_of_a_new_spool(folder: &Path) -> Result<Head, SpoolError> {
    let connection = file::open(folder)?;
    let path = folder.join(file::NAME);
    file::empty_log(&connection, &path)?;
    drop(connection);
    let mut head = [0; PAGE_BYTES as usize];
    let read = File::open(&path).and_then(|file| file.read_exact_at(&mut head, 0));
    read.map_err(|error| SpoolError::folder(folder, &error))?;
    Ok(head)
}

/// Returns true if the first page was replaced.
fn mend(path: &Path, mut new: Head) -> io::Result<bool> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    let (length, mut head) = (file.metadata()?.len(), [0; PAGE_BYTES as usize]);
    if file.read_exact_at(&mut head, 0).is_ok() && head.starts_with(MAGIC) {
        file.set_len(whole(length.max(u64::from(pages(&head)) * PAGE_BYTES)))?;
        if has_tables(path) {
            return Ok(false);
        }
    }
    let count = u32::try_from(length.div_ceil(PAGE_BYTES)).unwrap_or(u32::MAX).max(pages(&new));
    new[PAGES_AT..PAGES_AT + 4].copy_from_slice(&count.to_be_bytes());
    // The free pages are unknown.
    new[FREE_AT..FREE_AT + 8].fill(0);
    file.write_all_at(&new, 0)?;
    file.set_len(whole(u64::from(count) * PAGE_BYTES))?;
    Ok(true)
}

fn whole(bytes: u64) -> u64 {
    bytes.next_multiple_of(PAGE_BYTES)
}

/// By the header.
fn pages(head: &Head) -> u32 {
    u32::from_be_bytes([PAGES_AT, PAGES_AT + 1, PAGES_AT + 2, PAGES_AT + 3].map(|at| head[at]))
}

fn has_tables(path: &Path) -> bool {
    let tables = "SELECT count(*) FROM sqlite_schema WHERE name IN ('waiting', 'rejected', 'books')";
    let counted = Connection::open(path).and_then(|found| {
        found.pragma_update(None, "query_only", true)?;
        found.query_row(tables, [], |row| row.get::<_, u64>(0))
    });
    counted == Ok(3)
}
