//! The outcomes of records.

use crate::clock::Moment;
use crate::row::cause_of;
use rusqlite::{Transaction, params};

/// Keeps a record aside. `group_key` is the record's key in `waiting_group`.
const SET_ASIDE: &str = "INSERT INTO rejected (seq, key, group_key, spooled_ms, rejected_ms, reason, body)
    SELECT seq, key, (SELECT key FROM waiting_group g WHERE g.seq = w.seq), spooled_ms, ?, ?, body
    FROM waiting w WHERE seq = ?";

/// Marks rejected records that later records overtook: records of the same message, of a group that a later record changes,
/// or changes of a later record's group.
const OVERTAKE: &str = "UPDATE rejected SET overtaken = 1 WHERE overtaken = 0 AND seq IN (
    SELECT r.seq FROM waiting w JOIN rejected r ON r.key = w.key
        WHERE w.seq BETWEEN ?1 AND ?2 AND r.seq < w.seq
    UNION ALL SELECT r.seq FROM waiting w JOIN rejected r ON r.group_key = w.key
        WHERE w.seq BETWEEN ?1 AND ?2 AND r.seq < w.seq
    UNION ALL SELECT r.seq FROM waiting_group w JOIN rejected r ON r.key = w.key
        WHERE w.seq BETWEEN ?1 AND ?2 AND r.seq < w.seq)";

const LET_REST: &str = "INSERT OR REPLACE INTO resting (seq, key, group_key, cause)
    SELECT seq, key, (SELECT key FROM waiting_group g WHERE g.seq = w.seq), ? FROM waiting w WHERE seq = ?";

/// The outcomes of records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// Resubmitted records, to be removed.
    pub done: Vec<u64>,
    /// Records that can never be carried out, with the reasons, to be set aside.
    pub rejected: Vec<(u64, String)>,
    /// Records that rest until another try, with the reasons; `None`: behind another resting record.
    pub resting: Vec<(u64, Option<String>)>,
}

// === impl Settled ===

impl Settled {
    /// True if there is nothing to note.
    pub fn is_empty(&self) -> bool {
        self.done.is_empty() && self.rejected.is_empty() && self.resting.is_empty()
    }

    pub(crate) fn note(&self, change: &Transaction<'_>, now: Moment) -> rusqlite::Result<()> {
        let mut rejected = 0;
        for (seq, reason) in &self.rejected {
            rejected += change.prepare_cached(SET_ASIDE)?.execute(params![now.wall.get(), reason, seq])?;
            no_longer_waits(change, *seq, *seq)?;
        }
        let mut replayed = 0;
        for run in self.done.chunk_by(|one, next| one + 1 == *next) {
            let (first, last) = (run[0], run[run.len() - 1]);
            change.prepare_cached(OVERTAKE)?.execute([first, last])?;
            replayed += no_longer_waits(change, first, last)?;
        }
        for (seq, why) in &self.resting {
            let cause = why.as_deref().map(cause_of);
            change.prepare_cached(LET_REST)?.execute(params![cause, seq])?;
        }
        let books = "UPDATE books SET replayed = replayed + ?, rejected = rejected + ?";
        change.prepare_cached(books)?.execute([replayed, rejected]).map(drop)
    }
}

/// Returns how many there were.
pub(crate) fn no_longer_waits(change: &Transaction<'_>, first: u64, last: u64) -> rusqlite::Result<usize> {
    let delete = |table| {
        let sql = format!("DELETE FROM {table} WHERE seq BETWEEN ? AND ?");
        change.prepare_cached(&sql)?.execute([first, last])
    };
    delete("waiting_group")?;
    delete("waiting_again")?;
    delete("resting")?;
    delete("waiting")
}
