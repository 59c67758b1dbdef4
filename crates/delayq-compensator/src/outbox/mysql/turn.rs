//! One turn: rows are read and deleted under the lock of the state.

use super::connection::{MySqlLink, column};
use super::{MySql, TurnRows, sql};
use crate::outbox::keeper::AsidePage;
use crate::outbox::row::OutboxRow;
use crate::outbox::store::{StoreError, TurnTaken};
use crate::outcome::Outcome;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

// === impl MySql ===

impl MySql {
    pub(super) async fn take_turn(&mut self, resting: bool) -> Result<TurnTaken, StoreError> {
        let (batch, most, tried_aside) = (self.config.batch, self.most, self.tried_aside);
        let unreadable = self.unreadable.take().filter(|_| !resting);
        let link = self.connect().await?;
        if !resting && link.first(sql::WAITS).await?.is_none() {
            return Ok(TurnTaken::Nothing);
        }
        link.run("START TRANSACTION").await?;
        if link.first(sql::TURN).await?.is_none() {
            link.run("ROLLBACK").await?;
            return Ok(TurnTaken::Busy);
        }
        if let Some(why) = unreadable
            && let Some(mut first) = link.first(sql::FIRST).await?
        {
            let seqs = vec![column(&mut first, 0)?];
            self.turn = Some(TurnRows::Rows { seqs, whole: false });
            let row = OutboxRow {
                fault: Some(format!("the database cannot read the row: {why}")),
                ..OutboxRow::default()
            };
            return Ok(TurnTaken::Turn(vec![row]));
        }
        let page = |after| AsidePage { resting, after, most: batch.into(), whole: true };
        let mut read = match resting {
            true => link.rows(&sql::aside_rows(page(tried_aside))).await?,
            false => match link.rows(&sql::next_rows(most)).await {
                Err(StoreError::Refused(why)) => {
                    self.narrow(&why);
                    return Err(StoreError::Refused(why));
                }
                found => found?,
            },
        };
        // After the last resting row, the first row again.
        if resting && read.is_empty() && tried_aside > 0 {
            read = link.rows(&sql::aside_rows(page(0))).await?;
        }
        let (mut keys, mut found) = (Vec::new(), Vec::new());
        for mut row in read {
            keys.push(column(&mut row, 0)?);
            found.push(row_of(&mut row)?);
        }
        if resting {
            self.tried_aside = keys.last().copied().unwrap_or(0);
        }
        if !resting {
            self.most = (2 * self.most).min(batch.into());
        }
        self.turn =
            Some(if resting { TurnRows::Aside(keys) } else { TurnRows::Rows { seqs: keys, whole: true } });
        Ok(TurnTaken::Turn(found))
    }

    /// Reads fewer rows the next time, down to the single unreadable row, which is then set aside.
    fn narrow(&mut self, why: &str) {
        if self.most == 1 {
            self.unreadable = Some(why.to_owned());
        }
        self.most = (self.most / 10).max(1);
    }

    pub(super) async fn end_turn(&mut self, outcomes: Vec<Outcome>) -> Result<(), StoreError> {
        let lost = || StoreError::Unreachable("the connection with the turn was lost".to_owned());
        let turn = self.turn.take().ok_or_else(lost)?;
        let link = self.connection.present().ok_or_else(lost)?;
        match turn {
            TurnRows::Rows { seqs, whole } => settle_rows(link, &seqs, whole, outcomes).await?,
            TurnRows::Aside(numbers) => settle_aside(link, &numbers, outcomes).await?,
        }
        link.run("COMMIT").await
    }
}

async fn settle_rows(
    link: &mut MySqlLink,
    seqs: &[u64],
    whole: bool,
    outcomes: Vec<Outcome>,
) -> Result<(), StoreError> {
    let set_aside = sql::set_aside(whole);
    let (mut settled, mut done) = (Vec::with_capacity(seqs.len()), Vec::with_capacity(seqs.len()));
    for (&seq, outcome) in seqs.iter().zip(outcomes) {
        match outcome {
            Outcome::Hold(..) | Outcome::Untried => break,
            Outcome::Done => done.push(seq),
            Outcome::Reject(reason) => link.run_with(&set_aside, (false, reason, seq)).await?,
            Outcome::Rest(_, reason) => link.run_with(&set_aside, (true, reason, seq)).await?,
        }
        settled.push(seq);
    }
    overtake(link, &done, false).await?;
    if settled.is_empty() { Ok(()) } else { link.run(&sql::settled(&settled)).await }
}

/// Marks rejected rows as overtaken by later rows of the same messages.
async fn overtake(link: &mut MySqlLink, done: &[u64], aside: bool) -> Result<(), StoreError> {
    if done.is_empty() || link.first(sql::ANY_REJECTED).await?.is_none() {
        return Ok(());
    }
    let found = link.rows(&sql::overtaken(done, aside)).await?;
    let numbers = found.into_iter().map(|mut row| column(&mut row, 0));
    let numbers = numbers.collect::<Result<Vec<u64>, _>>()?;
    if numbers.is_empty() { Ok(()) } else { link.run(&sql::overtake(&numbers)).await }
}

async fn settle_aside(
    link: &mut MySqlLink,
    numbers: &[u64],
    outcomes: Vec<Outcome>,
) -> Result<(), StoreError> {
    let mut done = Vec::new();
    for (&number, outcome) in numbers.iter().zip(outcomes) {
        match outcome {
            Outcome::Hold(..) | Outcome::Untried => {}
            Outcome::Done => done.push(number),
            Outcome::Reject(reason) => link.run_with(sql::STILL_ASIDE, (false, reason, number)).await?,
            Outcome::Rest(_, reason) => link.run_with(sql::STILL_ASIDE, (true, reason, number)).await?,
        }
    }
    overtake(link, &done, true).await?;
    if done.is_empty() { Ok(()) } else { link.run(&sql::delete_aside(&done)).await }
}

/// The columns of a row. Further columns follow.
pub(super) const ROW: usize = 18;

/// The row of [`sql::next_rows`] or [`sql::aside_rows`].
pub(super) fn row_of(found: &mut mysql_async::Row) -> Result<OutboxRow, StoreError> {
    Ok(OutboxRow {
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
        again: column(found, 13)?,
        age: Duration::from_millis(column(found, 14)?),
        fault: column(found, 15)?,
        is_behind: column(found, 16)?,
        key: column(found, 17)?,
    })
}

/// A time by microseconds. A server in non-strict mode turns an unsupported time into 0, which is refused as a time before
/// 1970.
fn time(us: u64) -> SystemTime {
    match us {
        0 => UNIX_EPOCH - Duration::from_secs(1),
        us => UNIX_EPOCH + Duration::from_micros(us),
    }
}
