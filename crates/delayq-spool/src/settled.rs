//! What became of records that were tried, and which are tried next: one note on disk in front of each call.

use crate::clock::Moment;
use rusqlite::{Transaction, params};

/// Earlier times stay. Each try is counted, so that every try writes: what cannot be noted is not sent.
const BEGUN: &str = "INSERT INTO begun (seq, tried_ms, boot, up_ms, tries) VALUES (?, ?, ?, ?, 1)
                     ON CONFLICT (seq) DO UPDATE SET tries = tries + 1";

/// What became of records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// Those that were resubmitted. They are removed.
    pub done: Vec<u64>,
    /// Those that can never be carried out, and why. They are set aside.
    pub rejected: Vec<(u64, String)>,
    /// Those that are known not to have reached Redis when they were first tried. They count as never tried.
    pub untried: Vec<u64>,
}

// === impl Settled ===

impl Settled {
    /// Whether there is nothing to note.
    pub fn is_empty(&self) -> bool {
        self.done.is_empty() && self.rejected.is_empty() && self.untried.is_empty()
    }

    pub(crate) fn note(&self, change: &Transaction<'_>, now: Moment) -> rusqlite::Result<()> {
        let mut replayed = 0;
        for run in self.done.chunk_by(|one, next| one + 1 == *next) {
            replayed += no_longer_waits(change, run[0], run[run.len() - 1])?;
        }
        let mut rejected = 0;
        for (seq, reason) in &self.rejected {
            rejected += change.execute(
                "INSERT INTO rejected SELECT seq, key, spooled_ms, ?, ?, body FROM waiting WHERE seq = ?",
                params![now.wall.get(), reason, seq],
            )?;
            no_longer_waits(change, *seq, *seq)?;
        }
        for seq in &self.untried {
            change.prepare_cached("DELETE FROM begun WHERE seq = ?")?.execute([seq])?;
        }
        let books = "UPDATE books SET replayed = replayed + ?, rejected = rejected + ?";
        change.prepare_cached(books)?.execute([replayed, rejected]).map(drop)
    }
}

/// Notes that these are about to be tried.
pub(crate) fn begin(change: &Transaction<'_>, seqs: &[u64], now: Moment) -> rusqlite::Result<()> {
    let mut note = change.prepare_cached(BEGUN)?;
    seqs.iter().try_for_each(|seq| note.execute(params![seq, now.wall.get(), now.boot, now.up_ms]).map(drop))
}

/// Deletes the waiting records from one number to another; how many there were.
pub(crate) fn no_longer_waits(change: &Transaction<'_>, first: u64, last: u64) -> rusqlite::Result<usize> {
    let delete = |table| {
        let sql = format!("DELETE FROM {table} WHERE seq BETWEEN ? AND ?");
        change.prepare_cached(&sql)?.execute([first, last])
    };
    delete("waiting_group")?;
    delete("waiting_again")?;
    delete("begun")?;
    delete("waiting")
}
