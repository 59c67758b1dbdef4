//! Salvage: copies the readable records of a damaged spool to a new one.
//!
//! The records come from a repaired copy (see `repair`), so the damaged files stay unchanged.

use crate::clock::{self, Heard};
use crate::error::SpoolError;
use crate::flag::Flag;
use crate::lock::Lock;
use crate::repair::Copy;
use crate::row::note_group;
use crate::{encoding, file};
use rusqlite::types::Value;
use rusqlite::{
    Connection, OptionalExtension, Row, ToSql, Transaction, TransactionBehavior, params_from_iter,
};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The columns of the tables by numbers; the first is the number.
const WAITING: (&str, &str) = ("waiting", "seq, key, spooled_ms, boot, up_ms, body");
const REJECTED: (&str, &str) =
    ("rejected", "seq, key, group_key, overtaken, spooled_ms, rejected_ms, reason, body");

/// The files of a spool; the database last.
const FILES: [&str; 3] = ["spool.db-shm", "spool.db-wal", file::NAME];
/// So many numbers in a row that cannot be read are the end of a table.
const MOST_UNREADABLE: u32 = 1_000_000;

/// The findings of a salvage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Salvaged {
    /// Waiting records that were read.
    pub waiting: u64,
    /// Rejected records that were read.
    pub rejected: u64,
    /// Unreadable records, by the books; `None`: the books are unreadable too, so any missing number up to `issued` may be
    /// lost, or was resubmitted before.
    pub lost: Option<u64>,
    /// The numbers of lost records, known only if no other number is missing.
    pub lost_numbers: Vec<u64>,
    /// The last number that was given to a record, as far as that can be told.
    pub issued: u64,
    /// The present name of the damaged file.
    pub aside: PathBuf,
}

struct Readable {
    waiting: Vec<RawRow>,
    rejected: Vec<RawRow>,
    /// As far as readable: see `clock`.
    clocks: Vec<Heard>,
    lost: Option<u64>,
    lost_numbers: Vec<u64>,
    issued: u64,
}

type RawRow = Vec<Value>;

/// Recovers the readable records of a damaged spool. The damaged file is kept as `spool.db.damaged-<ms>`, and a new file
/// gets the records, in order. After an interrupted salvage, starts from scratch.
///
/// # Errors
/// [`SpoolError::InUse`] while a producer or compensator has the folder open, [`SpoolError::Sound`] if nothing is damaged;
/// else the problem with the new file.
pub fn salvage_spool(dir: &Path) -> Result<Salvaged, SpoolError> {
    let _alone = Lock::have_alone(dir)?;
    let of = |error: std::io::Error| SpoolError::folder(dir, &error);
    undo(dir).map_err(of)?;
    let path = dir.join(file::NAME);
    if file::is_sound(&path)? {
        return Err(SpoolError::Sound { path });
    }
    // Whole and on disk before anything is moved.
    let making = dir.join("salvaging");
    remove(&making).map_err(of)?;
    let copy = Copy::of(&path, &making.join("copy"))?;
    let readable = Readable::of(&copy, Flag::open(dir)?.last())?;
    let mut connection = file::open(&making)?;
    readable.write(&mut connection).map_err(|error| SpoolError::of(&path, &error))?;
    file::empty_log(&connection, &path)?;
    drop(connection);
    remove(&making.join("copy")).map_err(of)?;
    let stamp = clock::now().get().to_string();
    let made = dir.join(format!("{}{stamp}", file::SALVAGED));
    fs::rename(&making, &made).map_err(of)?;
    file::sync_folder(dir)?;
    for name in FILES {
        rename_if_there(&dir.join(name), &aside(dir, name, &stamp)).map_err(of)?;
    }
    fs::rename(made.join(file::NAME), &path).map_err(of)?;
    file::sync_folder(dir)?;
    remove(&made).map_err(of)?;
    let Readable { waiting, rejected, lost, lost_numbers, issued, .. } = readable;
    let (waiting, rejected) = (waiting.len() as u64, rejected.len() as u64);
    Ok(Salvaged { waiting, rejected, lost, lost_numbers, issued, aside: aside(dir, file::NAME, &stamp) })
}

/// Moves back the files that an interrupted salvage had moved.
fn undo(dir: &Path) -> std::io::Result<()> {
    for made in file::salvaged(dir)? {
        let name = made.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let stamp = name.trim_start_matches(file::SALVAGED);
        // A salvage whose folder has no database was finished.
        let moved = if made.join(file::NAME).exists() { &FILES[..] } else { &[] };
        for name in moved.iter().filter(|name| !dir.join(name).exists()) {
            rename_if_there(&aside(dir, name, stamp), &dir.join(name))?;
        }
        remove(&made)?;
    }
    Ok(())
}

fn aside(dir: &Path, name: &str, stamp: &str) -> PathBuf {
    let log = name.trim_start_matches(file::NAME);
    dir.join(format!("{}.damaged-{stamp}{log}", file::NAME))
}

fn rename_if_there(from: &Path, to: &Path) -> std::io::Result<()> {
    if from.exists() { fs::rename(from, to) } else { Ok(()) }
}

fn remove(folder: &Path) -> std::io::Result<()> {
    if folder.exists() { fs::remove_dir_all(folder) } else { Ok(()) }
}

// === impl Readable ===

impl Readable {
    /// `witness` is the last number that a process noted after its commit.
    fn of(copy: &Copy, witness: Option<u64>) -> Result<Self, SpoolError> {
        let Copy { path, connection, is_headless } = copy;
        let of = |error: rusqlite::Error| SpoolError::of(path, &error);
        let number = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, u64>(0)).ok();
        let last = [file::ISSUED, "SELECT max(seq) FROM waiting"].into_iter().find_map(number).max(witness);
        // Each of these numbers may be on a damaged page.
        let until = last.unwrap_or(i64::MAX.cast_unsigned());
        let waiting = rows(connection, WAITING, until).map_err(of)?;
        let rejected = rows(connection, REJECTED, until).map_err(of)?;
        let kept = (waiting.len() + rejected.len()) as u64;
        if *is_headless && !waiting.iter().chain(&rejected).any(is_record) {
            let why = "the first page is damaged or of another kind of file, and no record was found: move \
                       the file away, and a new spool is created";
            return Err(SpoolError::NotASpool { path: path.clone(), why: why.to_owned() });
        }
        let found = numbers(&[&waiting[..], &rejected[..]].concat());
        let issued = last.max(found.last().copied()).unwrap_or_default();
        let booked = number("SELECT spooled - replayed - discarded FROM books");
        // The books do not count these records, which were in a lost log.
        let unbooked = issued.saturating_sub(number(file::ISSUED).unwrap_or(issued));
        let lost = booked.map(|booked| (booked + unbooked).saturating_sub(kept));
        let lost_numbers = missing(&found, issued, lost);
        let lost = lost.or((issued == kept).then_some(0));
        let clocks = clocks(connection).unwrap_or_default();
        Ok(Self { waiting, rejected, clocks, lost, lost_numbers, issued })
    }

    fn write(&self, connection: &mut Connection) -> rusqlite::Result<()> {
        let change = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        insert(&change, WAITING, &self.waiting)?;
        insert(&change, REJECTED, &self.rejected)?;
        for &heard in &self.clocks {
            clock::note(&change, heard)?;
        }
        for row in &self.waiting {
            if let (Some(seq), Some(Value::Blob(body))) = (row.first().and_then(number), row.last())
                && let Ok(record) = encoding::decode(body)
            {
                note_group(&change, seq, &record)?;
            }
        }
        // No number is given twice.
        file::issue(&change, self.issued)?;
        let (waiting, rejected) = (self.waiting.len() as u64, self.rejected.len() as u64);
        let sql = "UPDATE books SET spooled = spooled + ?, rejected = rejected + ?";
        change.execute(sql, [waiting + rejected, rejected])?;
        change.commit()
    }
}

/// Behind a broken page, continues with the next readable number.
fn rows(connection: &Connection, (table, columns): (&str, &str), last: u64) -> rusqlite::Result<Vec<RawRow>> {
    let sql = format!("SELECT {columns} FROM {table} NOT INDEXED WHERE seq > ? ORDER BY seq LIMIT 1");
    let mut next = connection.prepare(&sql)?;
    let read =
        |row: &Row<'_>| (0..row.as_ref().column_count()).map(|i| row.get(i)).collect::<Result<RawRow, _>>();
    let (mut rows, mut after, mut unreadable) = (Vec::new(), 0, 0);
    while after < last && unreadable < MOST_UNREADABLE {
        match next.query_row([after], |row| Ok((row.get::<_, u64>(0)?, read(row)?))).optional() {
            Ok(None) => break,
            // On a damaged page a number may be out of order.
            Ok(Some((seq, row))) if seq > after => {
                (after, unreadable) = (seq, 0);
                rows.push(row);
            }
            _ => (after, unreadable) = (after + 1, unreadable + 1),
        }
    }
    Ok(rows)
}

fn clocks(connection: &Connection) -> rusqlite::Result<Vec<Heard>> {
    let mut read = connection.prepare("SELECT boot, redis_ms FROM clocks")?;
    read.query_map([], |row| Ok(Heard { boot: row.get(0)?, redis_ms: row.get(1)? }))?.collect()
}

/// The numbers from the first row's on that no row has, if so many are `lost` and none was resubmitted or discarded.
fn missing(found: &BTreeSet<u64>, issued: u64, lost: Option<u64>) -> Vec<u64> {
    let first = found.first().copied().unwrap_or(1);
    let missing = (issued + 1).saturating_sub(first + found.len() as u64);
    match missing <= MOST_UNREADABLE.into() && lost == Some(missing) {
        true => (first..=issued).filter(|number| !found.contains(number)).collect(),
        false => Vec::new(),
    }
}

fn is_record(row: &RawRow) -> bool {
    matches!(row.last(), Some(Value::Blob(body)) if encoding::decode(body).is_ok())
}

fn numbers(rows: &[RawRow]) -> BTreeSet<u64> {
    rows.iter().filter_map(|row| number(row.first()?)).collect()
}

fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Integer(number) => u64::try_from(*number).ok(),
        _ => None,
    }
}

fn insert(change: &Transaction<'_>, (table, columns): (&str, &str), rows: &[RawRow]) -> rusqlite::Result<()> {
    let places = vec!["?"; columns.split(',').count()].join(", ");
    let mut insert = change.prepare(&format!("INSERT INTO {table} ({columns}) VALUES ({places})"))?;
    for row in rows {
        insert.execute(params_from_iter(row.iter().map(|value| value as &dyn ToSql)))?;
    }
    Ok(())
}
