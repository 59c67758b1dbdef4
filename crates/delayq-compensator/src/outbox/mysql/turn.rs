//! One turn: rows are read under the lock of the state, and deleted with it.

use super::{MySql, column, failed, first, rows, run, sql};
use crate::outbox::row::Row;
use crate::outbox::store::{Batch, Name, StoreError, Taken, Verdict};
use mysql_async::Conn;
use mysql_async::prelude::Queryable as _;
use std::collections::HashSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What a turn works with.
#[derive(Debug)]
pub(super) enum Turn {
    /// Rows, by seq.
    Rows(Vec<u64>),
    /// Rows aside, by number.
    Aside(Vec<u64>),
}

// === impl MySql ===

impl MySql {
    pub(super) async fn take_turn(&mut self, resting: bool) -> Result<Taken, StoreError> {
        let (batch, tried_aside) = (self.config.batch, self.tried_aside);
        let conn = self.connect().await?;
        if !resting && first(conn, sql::WAITS).await?.is_none() {
            return Ok(Taken::Nothing);
        }
        // Names of rows that rest, which later rows of theirs go behind: all, or those before the ones that are tried now.
        let upto = if resting { tried_aside } else { u64::MAX };
        let Some(names) = begin(conn, upto).await? else {
            run(conn, "ROLLBACK").await?;
            return Ok(Taken::Busy);
        };
        let statement = if resting { sql::resting_rows(tried_aside, batch) } else { sql::next_rows(batch) };
        let mut keys = Vec::new();
        let mut found = Vec::new();
        for mut row in rows(conn, &statement).await? {
            keys.push(column(&mut row, 0)?);
            found.push(row_of(&mut row)?);
        }
        self.turn = Some(match resting {
            false => Turn::Rows(keys),
            true => {
                // After the last one, the first one again.
                self.tried_aside =
                    keys.last().filter(|_| keys.len() == usize::from(batch)).map_or(0, |&last| last);
                Turn::Aside(keys)
            }
        });
        Ok(Taken::Turn(Batch { rows: found, resting: names }))
    }

    pub(super) async fn end_turn(&mut self, verdicts: Vec<Verdict>) -> Result<(), StoreError> {
        let lost = || StoreError::Unreachable("the connection with the turn was lost".to_owned());
        let turn = self.turn.take().ok_or_else(lost)?;
        let conn = self.connection.present().ok_or_else(lost)?;
        match turn {
            Turn::Rows(seqs) => settle_rows(conn, &seqs, verdicts).await?,
            Turn::Aside(numbers) => settle_aside(conn, &numbers, verdicts).await?,
        }
        run(conn, "COMMIT").await
    }
}

/// Begins a turn, with the names of rows that rest; `None`: another one has it.
async fn begin(conn: &mut Conn, upto: u64) -> Result<Option<HashSet<Name>>, StoreError> {
    run(conn, "START TRANSACTION").await?;
    if first(conn, sql::TURN).await?.is_none() {
        return Ok(None);
    }
    let mut names = HashSet::new();
    for mut name in rows(conn, &sql::resting_names(upto)).await? {
        names.insert((column(&mut name, 0)?, column(&mut name, 1)?));
    }
    Ok(Some(names))
}

/// What follows a row that is still to be carried out is read again with it.
async fn settle_rows(conn: &mut Conn, seqs: &[u64], verdicts: Vec<Verdict>) -> Result<(), StoreError> {
    let set_aside = sql::set_aside();
    let mut settled = Vec::with_capacity(seqs.len());
    for (&seq, verdict) in seqs.iter().zip(verdicts) {
        match verdict {
            Verdict::Untried => break,
            Verdict::Done => {}
            Verdict::Rejected(reason) => keep(conn, &set_aside, false, reason, seq).await?,
            Verdict::Rests(reason) => keep(conn, &set_aside, true, reason, seq).await?,
        }
        settled.push(seq);
    }
    if settled.is_empty() { Ok(()) } else { run(conn, &sql::settled(&settled)).await }
}

async fn settle_aside(conn: &mut Conn, numbers: &[u64], verdicts: Vec<Verdict>) -> Result<(), StoreError> {
    let mut done = Vec::new();
    for (&number, verdict) in numbers.iter().zip(verdicts) {
        match verdict {
            Verdict::Untried => {}
            Verdict::Done => done.push(number),
            Verdict::Rejected(reason) => keep(conn, sql::STILL_ASIDE, false, reason, number).await?,
            Verdict::Rests(reason) => keep(conn, sql::STILL_ASIDE, true, reason, number).await?,
        }
    }
    if done.is_empty() { Ok(()) } else { run(conn, &sql::delete_aside(&done)).await }
}

/// Keeps a row aside with its reason.
async fn keep(
    conn: &mut Conn,
    statement: &str,
    rests: bool,
    reason: String,
    key: u64,
) -> Result<(), StoreError> {
    conn.exec_drop(statement, (rests, reason, key)).await.map_err(failed)
}

/// The row of [`sql::next_rows`], [`sql::resting_rows`] or [`sql::aside_rows`].
pub(super) fn row_of(found: &mut mysql_async::Row) -> Result<Row, StoreError> {
    Ok(Row {
        verb: column(found, 1)?,
        topic: column(found, 2)?,
        id: column(found, 3)?,
        group_id: column(found, 4)?,
        due: column::<Option<u64>>(found, 5)?.map(time),
        delay_ms: column(found, 6)?,
        expected: column::<Option<u64>>(found, 7)?.map(time),
        payload: column(found, 8)?,
        headers: column(found, 9)?,
        expires: column::<Option<u64>>(found, 10)?.map(time),
        max_attempts: column(found, 11)?,
        replaces: column(found, 12)?,
        age: Duration::from_millis(column(found, 13)?),
    })
}

/// A time by its microseconds. 0 is what a server that is not strict makes of a time that it cannot keep: it is no time.
fn time(us: u64) -> SystemTime {
    match us {
        0 => UNIX_EPOCH - Duration::from_secs(1),
        us => UNIX_EPOCH + Duration::from_micros(us),
    }
}
