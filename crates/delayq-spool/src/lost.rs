//! The records that a damaged log has lost: SQLite ends the log at the first damaged frame, and silently drops the commits
//! behind that frame.

use crate::error::SpoolError;
use crate::flag::Flag;
use crate::{clock, file};
use rusqlite::{Connection, Transaction, TransactionBehavior, params};
use std::path::Path;

/// Sets a row aside that names the numbers that were given and that the database lacks. The row has no bytes, so an operator
/// can discard the row, but not retry the lost records.
pub(crate) fn note(connection: &mut Connection, flag: &Flag, path: &Path) -> Result<(), SpoolError> {
    let mut note = || {
        // A process that is between a commit and the witness of that commit has a lower number.
        let change = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let issued = file::issued(&change)?;
        match flag.last() {
            Some(last) if last > issued => set_aside(&change, issued + 1, last)?,
            _ => return change.rollback(),
        }
        change.commit()
    };
    match note().map_err(|error| SpoolError::of(path, &error)) {
        // Waiting records have to leave a full disk all the same.
        Err(SpoolError::DiskFull { .. }) => Ok(()),
        result => result,
    }
}

fn set_aside(change: &Transaction<'_>, first: u64, last: u64) -> rusqlite::Result<()> {
    let reason = format!(
        "acknowledged records {first} to {last} are not in the database: its log is damaged, or the database \
         was replaced; put the records again, unless they were resubmitted"
    );
    let now_ms = clock::now().get();
    let sql =
        "INSERT INTO rejected (seq, key, spooled_ms, rejected_ms, reason, body) VALUES (?, 0, ?, ?, ?, x'')";
    change.execute(sql, params![last, now_ms, now_ms, reason])?;
    change.execute("UPDATE books SET spooled = spooled + 1, rejected = rejected + 1", [])?;
    file::issue(change, last)
}
