//! One turn: rows are read and the progress is noted under the lock of the state.

use super::connection::Param;
use super::keys::{Key, MAX_KEYS, Window};
use super::sql::Sql;
use super::{Postgres, TurnRows, is_of, no_progress};
use crate::outbox::row::OutboxRow;
use crate::outbox::store::{StoreError, TurnTaken};
use crate::outcome::Outcome;
use std::collections::VecDeque;
use std::time::Duration;
use tokio_postgres::types::Type;

/// The settled part of the rows.
pub(super) struct WindowProgress {
    turn: i64,
    before: String,
    until: String,
    /// Nobody has read this window yet.
    is_new: bool,
    seq: i64,
}

// === impl Postgres ===

impl Postgres {
    pub(super) async fn take_turn(&mut self, resting: bool) -> Result<TurnTaken, StoreError> {
        self.connect().await?;
        if !resting && !self.waits().await? {
            return Ok(TurnTaken::Nothing);
        }
        let Some(progress) = self.begin().await? else {
            self.link()?.batch("ROLLBACK").await?;
            return Ok(TurnTaken::Busy);
        };
        let (turn, found) = match resting {
            true => self.rows_aside().await?,
            false => self.rows_of(&progress).await?,
        };
        self.turn = Some(turn);
        Ok(TurnTaken::Turn(found))
    }

    async fn waits(&self) -> Result<bool, StoreError> {
        let found = self.link()?.rows(&self.sql.waits(), &[]).await?;
        found.first().map(|found| found.get(0)).ok_or_else(no_progress)
    }

    /// Begins a turn, in a single round trip; `None`: another reader has the turn. Each turn compares the cluster, because
    /// another cluster may appear behind a pooler.
    pub(super) async fn begin(&self) -> Result<Option<WindowProgress>, StoreError> {
        let link = self.link()?;
        let begin = Sql::begin(2 * self.config.deadline.as_millis());
        let (turn, progress) = (self.sql.turn(), self.sql.progress());
        let (_, turn, progress) = tokio::try_join!(
            biased;
            link.batch(&begin),
            link.rows(&turn, &[]),
            link.rows(&progress, &[]),
        )?;
        let Some(turn) = turn.first() else { return Ok(None) };
        is_of(turn.get(1))?;
        let found = progress.first().ok_or_else(no_progress)?;
        Ok(Some(WindowProgress {
            turn: found.get(0),
            before: found.get(1),
            until: found.get(2),
            is_new: found.get(3),
            seq: found.get(4),
        }))
    }

    /// The next rows of the window.
    async fn rows_of(&mut self, progress: &WindowProgress) -> Result<(TurnRows, Vec<OutboxRow>), StoreError> {
        let known = self
            .window
            .take()
            .filter(|window| !progress.is_new && window.is_at(progress.turn, &progress.until, progress.seq));
        let window = match known {
            Some(window) => window,
            None => self.read_keys(progress).await?,
        };
        let unreadable = self.unreadable.take().filter(|(key, _)| window.keys.front() == Some(key));
        if let Some((key, why)) = unreadable {
            self.window = Some(window);
            let row = OutboxRow {
                fault: Some(format!("the database cannot read the row: {why}")),
                ..OutboxRow::default()
            };
            return Ok((TurnRows::Rows { keys: vec![key], page: 1, whole: false }, vec![row]));
        }
        let page = window.page(self.most);
        let (txs, seqs): (Vec<i64>, Vec<i64>) = page.iter().map(|key| (key.tx, key.seq)).unzip();
        let of = [(&txs as _, Type::INT8_ARRAY), (&seqs as _, Type::INT8_ARRAY)];
        let found = match self.link()?.rows(&self.sql.rows(), &of).await {
            Err(StoreError::Refused(why)) => {
                self.narrow(&page, &why);
                return Err(StoreError::Refused(why));
            }
            found => found?,
        };
        self.most = (2 * self.most).min(self.config.batch.into());
        self.window = Some(window);
        let keys = found.iter().filter_map(|row| page.get(place_of(row)).copied()).collect();
        Ok((TurnRows::Rows { keys, page: page.len(), whole: true }, found.iter().map(row_of).collect()))
    }

    /// Reads fewer rows the next time, down to the single unreadable row, which is then set aside.
    fn narrow(&mut self, page: &[Key], why: &str) {
        if let [key] = page {
            self.unreadable = Some((*key, why.to_owned()));
        }
        self.most = (page.len() / 10).max(1);
    }

    async fn read_keys(&self, progress: &WindowProgress) -> Result<Window, StoreError> {
        let WindowProgress { turn, before, until, seq, .. } = progress;
        let of = [
            (before as _, Type::TEXT),
            (until as _, Type::TEXT),
            (seq as _, Type::INT8),
            (&MAX_KEYS as _, Type::INT8),
        ];
        let mut keys = VecDeque::new();
        let key = |row: &tokio_postgres::Row| {
            keys.push_back(Key { tx: row.get(0), seq: row.get(1), bytes: row.get(2) });
        };
        self.link()?.each_row(&self.sql.keys(), &of, key).await?;
        Ok(Window {
            turn: *turn,
            before: before.clone(),
            until: until.clone(),
            seq: *seq,
            is_whole: (keys.len() as i64) < MAX_KEYS,
            keys,
        })
    }

    /// The next rows that rest; after the last row, the first row again.
    async fn rows_aside(&mut self) -> Result<(TurnRows, Vec<OutboxRow>), StoreError> {
        let mut found = self.aside_after(self.tried_aside).await?;
        if found.is_empty() && self.tried_aside > 0 {
            found = self.aside_after(0).await?;
        }
        let numbers: Vec<i64> = found.iter().map(|row| row.get(0)).collect();
        self.tried_aside = numbers.last().copied().unwrap_or(0);
        Ok((TurnRows::Aside(numbers), found.iter().map(row_of).collect()))
    }

    async fn aside_after(&self, number: i64) -> Result<Vec<tokio_postgres::Row>, StoreError> {
        let most = i64::from(self.config.batch);
        let of = [(&true as _, Type::BOOL), (&number as _, Type::INT8), (&most as _, Type::INT8)];
        self.link()?.rows(&self.sql.aside_rows(), &of).await
    }

    pub(super) async fn end_turn(&mut self, outcomes: Vec<Outcome>) -> Result<(), StoreError> {
        match self.turn.take() {
            Some(TurnRows::Rows { keys, page, whole }) => {
                self.settle_rows(&keys, (page, whole), outcomes).await
            }
            Some(TurnRows::Aside(numbers)) => self.settle_aside(&numbers, outcomes).await,
            None => Err(StoreError::Unreachable("the connection with the turn was lost".to_owned())),
        }
    }

    async fn settle_rows(
        &mut self,
        keys: &[Key],
        (page, whole): (usize, bool),
        outcomes: Vec<Outcome>,
    ) -> Result<(), StoreError> {
        let Some(mut window) = self.window.take() else {
            return Err(StoreError::Unreachable("the window was lost".to_owned()));
        };
        let passed = match keys.get(outcomes.len()) {
            None => page,
            Some(first) => window.keys.iter().position(|key| key == first).unwrap_or(0),
        };
        let last = passed.checked_sub(1).map(|last| window.keys[last]);
        if let Some(last) = last {
            window.seq = last.seq;
        }
        let is_over = window.settle(passed);
        let aside = Aside::of(keys, &outcomes);
        let (before, until, seq) = match is_over {
            true => (window.until.clone(), None, 0),
            false => (window.before.clone(), Some(window.until.clone()), window.seq),
        };
        let tx = last.map(|last| last.tx);
        let link = self.link()?;
        let of = [
            (&before as _, Type::TEXT),
            (&until as _, Type::TEXT),
            (&seq as _, Type::INT8),
            (&tx as _, Type::INT8),
        ];
        let (txs, seqs) = done_of(keys, &outcomes);
        let done = [(&txs as _, Type::INT8_ARRAY), (&seqs as _, Type::INT8_ARRAY)];
        let (set_aside, advance) = (self.sql.set_aside(whole), self.sql.advance());
        let overtake = self.sql.overtake();
        let (_, _, advanced, ()) = tokio::try_join!(
            biased;
            async {
                match aside.reason.is_empty() {
                    true => Ok(Vec::new()),
                    false => link.rows(&set_aside, &aside.params()).await,
                }
            },
            link.rows(&overtake, &done),
            link.rows(&advance, &of),
            link.batch("COMMIT"),
        )?;
        window.turn = advanced.first().map_or(0, |row| row.get(0));
        self.window = (!is_over).then_some(window);
        Ok(())
    }

    async fn settle_aside(&self, numbers: &[i64], outcomes: Vec<Outcome>) -> Result<(), StoreError> {
        let mut done = Vec::new();
        let (mut still, mut resting, mut reasons) = (Vec::new(), Vec::new(), Vec::new());
        for (&number, outcome) in numbers.iter().zip(outcomes) {
            let (rests, reason) = match outcome {
                Outcome::Done => {
                    done.push(number);
                    continue;
                }
                Outcome::Hold(..) | Outcome::Untried => continue,
                Outcome::Reject(reason) => (false, reason),
                Outcome::Rest(_, reason) => (true, reason),
            };
            still.push(number);
            resting.push(rests);
            reasons.push(reason);
        }
        let link = self.link()?;
        let (carried_out, still_aside) = (self.sql.carried_out(), self.sql.still_aside());
        let done = [(&done as _, Type::INT8_ARRAY)];
        let still = [
            (&still as _, Type::INT8_ARRAY),
            (&resting as _, Type::BOOL_ARRAY),
            (&reasons as _, Type::TEXT_ARRAY),
        ];
        let overtake = self.sql.overtake_aside();
        tokio::try_join!(
            biased;
            link.rows(&overtake, &done),
            link.rows(&carried_out, &done),
            link.rows(&still_aside, &still),
            link.batch("COMMIT"),
        )?;
        Ok(())
    }
}

/// The rows that were carried out, as the arrays of a statement.
fn done_of(keys: &[Key], outcomes: &[Outcome]) -> (Vec<i64>, Vec<i64>) {
    let done = keys.iter().zip(outcomes).filter(|(_, outcome)| **outcome == Outcome::Done);
    done.map(|(key, _)| (key.tx, key.seq)).unzip()
}

/// Rows to keep aside, as the arrays of a statement.
#[derive(Default)]
struct Aside {
    tx: Vec<i64>,
    seq: Vec<i64>,
    resting: Vec<bool>,
    reason: Vec<String>,
}

// === impl Aside ===

impl Aside {
    fn of(keys: &[Key], outcomes: &[Outcome]) -> Self {
        let mut aside = Self::default();
        for (key, outcome) in keys.iter().zip(outcomes) {
            let (rests, reason) = match outcome {
                Outcome::Reject(reason) => (false, reason),
                Outcome::Rest(_, reason) => (true, reason),
                Outcome::Done | Outcome::Hold(..) | Outcome::Untried => continue,
            };
            aside.tx.push(key.tx);
            aside.seq.push(key.seq);
            aside.resting.push(rests);
            aside.reason.push(reason.clone());
        }
        aside
    }

    fn params(&self) -> [Param<'_>; 4] {
        [
            (&self.tx as _, Type::INT8_ARRAY),
            (&self.seq as _, Type::INT8_ARRAY),
            (&self.resting as _, Type::BOOL_ARRAY),
            (&self.reason as _, Type::TEXT_ARRAY),
        ]
    }
}

/// The place of a row of [`Sql::rows`] in the keys.
pub(super) fn place_of(found: &tokio_postgres::Row) -> usize {
    usize::try_from(found.get::<_, i64>(0) - 1).unwrap_or(0)
}

/// The columns of a row. Further columns follow.
pub(super) const ROW: usize = 18;

/// The row of [`Sql::rows`] or [`Sql::aside_rows`].
pub(super) fn row_of(found: &tokio_postgres::Row) -> OutboxRow {
    OutboxRow {
        verb: found.get(1),
        topic: found.get(2),
        id: found.get(3),
        group_id: found.get(4),
        due: found.get(5),
        delay_ms: found.get(6),
        expected: found.get(7),
        payload: found.get(8),
        headers: found.get(9),
        expires: found.get(10),
        max_attempts: found.get(11),
        replaces: found.get(12),
        again: found.get(13),
        age: Duration::from_millis(u64::try_from(found.get::<_, i64>(14)).unwrap_or(0)),
        fault: found.get(15),
        is_behind: found.get(16),
        key: found.get(17),
    }
}
