//! Salvage: what can be read of a damaged spool, in a new one.

use crate::error::SpoolError;
use crate::lock::Lock;
use crate::row::note_group;
use crate::{clock, encoding, file};
use rusqlite::types::Value;
use rusqlite::{
    Connection, OptionalExtension, Row, ToSql, Transaction, TransactionBehavior, params_from_iter,
};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The columns of the tables by numbers; the first is the number.
const WAITING: (&str, &str) = ("waiting", "seq, key, spooled_ms, tried_ms, body");
const REJECTED: (&str, &str) = ("rejected", "seq, key, spooled_ms, rejected_ms, reason, body");

const BEGUN: (&str, &str) = ("begun", "seq, tried_ms");

/// The files of a spool; the database last.
const FILES: [&str; 3] = ["spool.db-shm", "spool.db-wal", file::NAME];
/// So many numbers in a row that cannot be read are the end of a table.
const MOST_UNREADABLE: u32 = 1_000_000;

/// What a salvage found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Salvaged {
    /// Waiting records that were read.
    pub waiting: u64,
    /// Rejected records that were read.
    pub rejected: u64,
    /// Records that cannot be read any more, by the books; if these cannot be read either, those of `lost_numbers`.
    pub lost: u64,
    /// The numbers of lost waiting records, as far as they can be told: where no others are missing, or by the index that files
    /// of earlier versions have.
    pub lost_numbers: Vec<u64>,
    /// What the damaged file is called now.
    pub aside: PathBuf,
}

/// What can be read of a file.
struct Readable {
    waiting: Vec<RawRow>,
    begun: Vec<RawRow>,
    rejected: Vec<RawRow>,
    lost: u64,
    lost_numbers: Vec<u64>,
    /// The last number that was given.
    issued: u64,
}

/// A row's columns, unchanged.
type RawRow = Vec<Value>;

/// Recovers what can be read of a damaged spool: the file is kept as `spool.db.damaged-<ms>`, and a new one gets its
/// readable records, in order. One that was cut off begins again.
///
/// # Errors
/// [`SpoolError::InUse`] while a producer or compensator has the folder open, [`SpoolError::Sound`] if nothing is damaged;
/// else what prevents a new file.
pub fn salvage_spool(dir: &Path) -> Result<Salvaged, SpoolError> {
    let _alone = Lock::have_alone(dir)?;
    let of = |error: std::io::Error| SpoolError::folder(dir, &error);
    undo(dir).map_err(of)?;
    let path = dir.join(file::NAME);
    let readable = Readable::of(&path)?;
    // Whole and on disk before anything is moved.
    let making = dir.join("salvaging");
    remove(&making).map_err(of)?;
    let mut connection = file::open(&making)?;
    readable.write(&mut connection).map_err(|error| SpoolError::of(&path, &error))?;
    file::empty_log(&connection, &path)?;
    drop(connection);
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
    let Readable { waiting, rejected, lost, lost_numbers, .. } = readable;
    let (waiting, rejected) = (waiting.len() as u64, rejected.len() as u64);
    Ok(Salvaged { waiting, rejected, lost, lost_numbers, aside: aside(dir, file::NAME, &stamp) })
}

/// Moves back what a salvage had moved when it was cut off before its end.
fn undo(dir: &Path) -> std::io::Result<()> {
    for made in file::salvaged(dir)? {
        let name = made.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let stamp = name.trim_start_matches(file::SALVAGED);
        // Without its database it had come to its end.
        let moved = if made.join(file::NAME).exists() { &FILES[..] } else { &[] };
        for name in moved.iter().filter(|name| !dir.join(name).exists()) {
            rename_if_there(&aside(dir, name, stamp), &dir.join(name))?;
        }
        remove(&made)?;
    }
    Ok(())
}

/// What a file of a damaged spool is called once it is replaced.
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
    fn of(path: &Path) -> Result<Self, SpoolError> {
        let of = |error: rusqlite::Error| SpoolError::of(path, &error);
        let connection = Connection::open(path).map_err(of)?;
        if file::damage(&connection).map_err(of)?.is_none() {
            return Err(SpoolError::Sound { path: path.to_owned() });
        }
        let number = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, u64>(0)).ok();
        // Each of them may be on a damaged page.
        let issued = [file::ISSUED, "SELECT max(seq) FROM waiting"].into_iter().find_map(number);
        let issued = issued.ok_or_else(|| SpoolError::Damaged {
            path: path.to_owned(),
            why: "even its last number cannot be read".to_owned(),
        })?;
        let waiting = rows(&connection, WAITING, issued).map_err(of)?;
        let rejected = rows(&connection, REJECTED, issued).map_err(of)?;
        // A file of an earlier version has none.
        let begun = rows(&connection, BEGUN, issued).unwrap_or_default();
        let kept = (waiting.len() + rejected.len()) as u64;
        let booked = number("SELECT spooled - replayed - discarded FROM books");
        let lost = booked.map(|booked| booked.saturating_sub(kept));
        let lost_numbers = indexed_and_lost(&connection, &waiting)
            .unwrap_or_else(|| missing(&[&waiting[..], &rejected[..]].concat(), issued, lost));
        let lost = lost.unwrap_or(lost_numbers.len() as u64);
        Ok(Self { waiting, begun, rejected, lost, lost_numbers, issued })
    }

    fn write(&self, connection: &mut Connection) -> rusqlite::Result<()> {
        let change = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        insert(&change, WAITING, &self.waiting)?;
        insert(&change, BEGUN, &self.begun)?;
        insert(&change, REJECTED, &self.rejected)?;
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

/// Reads a table from row to row; where a page is broken, it goes on behind the numbers that it hides.
fn rows(connection: &Connection, (table, columns): (&str, &str), last: u64) -> rusqlite::Result<Vec<RawRow>> {
    let sql = format!("SELECT {columns} FROM {table} NOT INDEXED WHERE seq > ? ORDER BY seq LIMIT 1");
    let mut next = connection.prepare(&sql)?;
    let read =
        |row: &Row<'_>| (0..row.as_ref().column_count()).map(|i| row.get(i)).collect::<Result<RawRow, _>>();
    let (mut rows, mut after, mut unreadable) = (Vec::new(), 0, 0);
    while after < last && unreadable < MOST_UNREADABLE {
        match next.query_row([after], |row| Ok((row.get::<_, u64>(0)?, read(row)?))).optional() {
            Ok(None) => break,
            // On a damaged page a number may be out of its order.
            Ok(Some((seq, row))) if seq > after => {
                (after, unreadable) = (seq, 0);
                rows.push(row);
            }
            _ => (after, unreadable) = (after + 1, unreadable + 1),
        }
    }
    Ok(rows)
}

/// The numbers that the index of keys has, and the table has no more: in files of earlier versions, unless it is damaged as well.
fn indexed_and_lost(connection: &Connection, found: &[RawRow]) -> Option<Vec<u64>> {
    let found = numbers(found);
    let indexed = ["waiting_chunk_key", "waiting_key"].into_iter().find_map(|index| {
        let sql = format!("SELECT seq FROM waiting INDEXED BY {index}");
        let mut select = connection.prepare(&sql).ok()?;
        let rows = select.query_map([], |row| row.get::<_, u64>(0)).ok()?;
        rows.collect::<rusqlite::Result<BTreeSet<_>>>().ok()
    });
    Some(indexed?.difference(&found).copied().collect())
}

/// The numbers from the first row's on that no row has, if so many are `lost` and none was resubmitted or discarded.
fn missing(found: &[RawRow], issued: u64, lost: Option<u64>) -> Vec<u64> {
    let found = numbers(found);
    let Some(&first) = found.first() else { return Vec::new() };
    let missing = (issued + 1).saturating_sub(first + found.len() as u64);
    match missing <= MOST_UNREADABLE.into() && lost.is_none_or(|lost| lost == missing) {
        true => (first..=issued).filter(|number| !found.contains(number)).collect(),
        false => Vec::new(),
    }
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
