//! One turn: rows are read under the lock of the state, and the progress is noted with it.

use super::keys::{Key, MAX_KEYS, Window};
use super::{Postgres, Sql, batch, rows};
use crate::outbox::row::Row;
use crate::outbox::store::{Batch, Name, StoreError, Taken, Verdict};
use std::collections::HashSet;
use std::time::Duration;
use tokio_postgres::types::Type;

/// What a turn works with.
#[derive(Debug)]
pub(super) enum Turn {
    /// Rows of the window: the keys of those that are there, and how many the page had.
    Rows { keys: Vec<Key>, page: usize },
    /// Rows aside, by number.
    Aside(Vec<i64>),
}

/// How far the rows are settled.
pub(super) struct Progress {
    turn: i64,
    before: String,
    until: String,
    /// Nobody has read this window yet.
    is_new: bool,
    seq: i64,
}

// === impl Postgres ===

impl Postgres {
    pub(super) async fn take_turn(&mut self, resting: bool) -> Result<Taken, StoreError> {
        self.connect().await?;
        if !resting && !self.waits().await? {
            return Ok(Taken::Nothing);
        }
        // Names of rows that rest, which later rows of theirs go behind: all, or those before the ones that are tried now.
        let upto = if resting { self.tried_aside } else { i64::MAX };
        let Some((progress, names)) = self.begin(upto).await? else {
            batch(self.client()?, "ROLLBACK").await?;
            return Ok(Taken::Busy);
        };
        let (turn, found) = match resting {
            true => self.rows_aside().await?,
            false => self.rows_of(&progress).await?,
        };
        self.turn = Some(turn);
        Ok(Taken::Turn(Batch { rows: found, resting: names }))
    }

    async fn waits(&self) -> Result<bool, StoreError> {
        let found = rows(self.client()?, &self.sql.waits(), &[]).await?;
        match found.first() {
            Some(found) => Ok(found.get(0)),
            None => Err(StoreError::Unfit("delayq_outbox_progress is empty".to_owned())),
        }
    }

    /// Begins a turn, in one round trip; `None`: another one has it.
    pub(super) async fn begin(&self, upto: i64) -> Result<Option<(Progress, HashSet<Name>)>, StoreError> {
        let client = self.client()?;
        let begin = Sql::begin(2 * self.config.deadline.as_millis());
        let (turn, progress, names) = (self.sql.turn(), self.sql.progress(), self.sql.resting_names());
        let names_of = [(&upto as _, Type::INT8)];
        let (_, turn, progress, names) = tokio::try_join!(
            biased;
            batch(client, &begin),
            rows(client, &turn, &[]),
            rows(client, &progress, &[]),
            rows(client, &names, &names_of),
        )?;
        let (Some(_), Some(found)) = (turn.first(), progress.first()) else { return Ok(None) };
        let progress = Progress {
            turn: found.get(0),
            before: found.get(1),
            until: found.get(2),
            is_new: found.get(3),
            seq: found.get(4),
        };
        Ok(Some((progress, names.iter().map(|name| (name.get(0), name.get(1))).collect())))
    }

    /// The next rows of the window.
    async fn rows_of(&mut self, progress: &Progress) -> Result<(Turn, Vec<Row>), StoreError> {
        let known = self
            .window
            .take()
            .filter(|window| !progress.is_new && window.turn == progress.turn && !window.keys.is_empty());
        let window = match known {
            Some(window) => window,
            None => self.read_keys(progress).await?,
        };
        let page = window.page(self.config.batch.into());
        let (txs, seqs): (Vec<i64>, Vec<i64>) = page.iter().map(|key| (key.tx, key.seq)).unzip();
        let of = [(&txs as _, Type::INT8_ARRAY), (&seqs as _, Type::INT8_ARRAY)];
        let found = rows(self.client()?, &self.sql.rows(), &of).await?;
        self.window = Some(window);
        let keys = found.iter().filter_map(|row| page.get(place_of(row)).copied()).collect();
        Ok((Turn::Rows { keys, page: page.len() }, found.iter().map(row_of).collect()))
    }

    async fn read_keys(&self, progress: &Progress) -> Result<Window, StoreError> {
        let Progress { turn, before, until, seq, .. } = progress;
        let of = [
            (before as _, Type::TEXT),
            (until as _, Type::TEXT),
            (seq as _, Type::INT8),
            (&MAX_KEYS as _, Type::INT8),
        ];
        let found = rows(self.client()?, &self.sql.keys(), &of).await?;
        let key = |row: &tokio_postgres::Row| Key { tx: row.get(0), seq: row.get(1), bytes: row.get(2) };
        Ok(Window {
            turn: *turn,
            before: before.clone(),
            until: until.clone(),
            seq: *seq,
            keys: found.iter().map(key).collect(),
            is_whole: (found.len() as i64) < MAX_KEYS,
        })
    }

    /// The next rows that rest; after the last one, the first one again.
    async fn rows_aside(&mut self) -> Result<(Turn, Vec<Row>), StoreError> {
        let most = i64::from(self.config.batch);
        let of = [(&self.tried_aside as _, Type::INT8), (&most as _, Type::INT8)];
        let found = rows(self.client()?, &self.sql.resting_rows(), &of).await?;
        let numbers: Vec<i64> = found.iter().map(|row| row.get(0)).collect();
        self.tried_aside = match numbers.last() {
            Some(&last) if numbers.len() == usize::from(self.config.batch) => last,
            _ => 0,
        };
        Ok((Turn::Aside(numbers), found.iter().map(row_of).collect()))
    }

    pub(super) async fn end_turn(&mut self, verdicts: Vec<Verdict>) -> Result<(), StoreError> {
        match self.turn.take() {
            Some(Turn::Rows { keys, page }) => self.settle_rows(&keys, page, verdicts).await,
            Some(Turn::Aside(numbers)) => self.settle_aside(&numbers, verdicts).await,
            None => Err(StoreError::Unreachable("the connection with the turn was lost".to_owned())),
        }
    }

    async fn settle_rows(
        &mut self,
        keys: &[Key],
        page: usize,
        verdicts: Vec<Verdict>,
    ) -> Result<(), StoreError> {
        let Some(mut window) = self.window.take() else {
            return Err(StoreError::Unreachable("the window was lost".to_owned()));
        };
        // What follows a row that is still to be carried out is read again with it.
        let settled = verdicts.iter().take_while(|verdict| **verdict != Verdict::Untried).count();
        let passed = match settled == keys.len() {
            true => page,
            false => window.keys.iter().position(|key| *key == keys[settled]).unwrap_or(0),
        };
        if let Some(last) = window.keys.iter().take(passed).next_back() {
            window.seq = last.seq;
        }
        let is_over = window.settle(passed);
        let aside = Aside::of(keys, &verdicts[..settled]);
        let (before, until, seq) = match is_over {
            true => (window.until.clone(), None, 0),
            false => (window.before.clone(), Some(window.until.clone()), window.seq),
        };
        let client = self.client()?;
        let of = [(&before as _, Type::TEXT), (&until as _, Type::TEXT), (&seq as _, Type::INT8)];
        let (set_aside, advance) = (self.sql.set_aside(), self.sql.advance());
        let (_, advanced, ()) = tokio::try_join!(
            biased;
            async {
                match aside.reason.is_empty() {
                    true => Ok(Vec::new()),
                    false => rows(client, &set_aside, &aside.params()).await,
                }
            },
            rows(client, &advance, &of),
            batch(client, "COMMIT"),
        )?;
        window.turn = advanced.first().map_or(0, |row| row.get(0));
        self.window = (!is_over).then_some(window);
        Ok(())
    }

    async fn settle_aside(&self, numbers: &[i64], verdicts: Vec<Verdict>) -> Result<(), StoreError> {
        let mut done = Vec::new();
        let (mut still, mut resting, mut reasons) = (Vec::new(), Vec::new(), Vec::new());
        for (&number, verdict) in numbers.iter().zip(verdicts) {
            let (rests, reason) = match verdict {
                Verdict::Done => {
                    done.push(number);
                    continue;
                }
                Verdict::Untried => continue,
                Verdict::Rejected(reason) => (false, reason),
                Verdict::Rests(reason) => (true, reason),
            };
            still.push(number);
            resting.push(rests);
            reasons.push(reason);
        }
        let client = self.client()?;
        let (carried_out, still_aside) = (self.sql.carried_out(), self.sql.still_aside());
        let done = [(&done as _, Type::INT8_ARRAY)];
        let still = [
            (&still as _, Type::INT8_ARRAY),
            (&resting as _, Type::BOOL_ARRAY),
            (&reasons as _, Type::TEXT_ARRAY),
        ];
        tokio::try_join!(
            biased;
            rows(client, &carried_out, &done),
            rows(client, &still_aside, &still),
            batch(client, "COMMIT"),
        )?;
        Ok(())
    }
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
    fn of(keys: &[Key], verdicts: &[Verdict]) -> Self {
        let mut aside = Self::default();
        for (key, verdict) in keys.iter().zip(verdicts) {
            let (rests, reason) = match verdict {
                Verdict::Rejected(reason) => (false, reason),
                Verdict::Rests(reason) => (true, reason),
                Verdict::Done | Verdict::Untried => continue,
            };
            aside.tx.push(key.tx);
            aside.seq.push(key.seq);
            aside.resting.push(rests);
            aside.reason.push(reason.clone());
        }
        aside
    }

    fn params(&self) -> [super::Param<'_>; 4] {
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

/// The row of [`Sql::rows`] or [`Sql::resting_rows`].
pub(super) fn row_of(found: &tokio_postgres::Row) -> Row {
    Row {
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
        age: Duration::from_millis(u64::try_from(found.get::<_, i64>(13)).unwrap_or(0)),
    }
}
