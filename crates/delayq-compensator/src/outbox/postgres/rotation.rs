//! Two tables take the rows in turns: while producers write to one, the other is truncated as soon as every row is settled.

use super::Postgres;
use crate::outbox::store::StoreError;
use std::time::Duration;
use tokio_postgres::types::Type;

/// Maximum time for which a truncation waits for transactions that still write to the table; new transactions wait
/// meanwhile.
const LOCK_WAIT_MS: u32 = 50;
/// Transactions that are shorter hold nothing up: each turn of a reader is a transaction too.
const PATIENCE: Duration = Duration::from_secs(60);

/// The relevant state of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Shape {
    /// The table takes room on the disk.
    is_used: bool,
    /// Ages of the first and the last row.
    first: Option<Duration>,
    last: Option<Duration>,
}

/// The next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Nothing,
    /// Truncate the table that takes no rows.
    Truncate,
    /// Let the table take new rows.
    Move,
}

/// `current` takes the rows, `other` does not.
fn step(current: Shape, other: Shape, every: Duration, keep: Duration) -> Step {
    match (other.is_used, other.last) {
        (true, last) if last.is_none_or(|age| age >= keep) => Step::Truncate,
        (false, _) if current.first.is_some_and(|age| age >= every) => Step::Move,
        _ => Step::Nothing,
    }
}

// === impl Postgres ===

impl Postgres {
    pub(super) async fn rotate_tables(&mut self) -> Result<(), StoreError> {
        self.connect().await?;
        let slot = self.slot().await?;
        let (current, other) = (self.shape(slot).await?, self.shape(1 - slot).await?);
        let step = step(current, other, *self.config.rotate_every, *self.config.keep);
        if step == Step::Nothing {
            self.held = None;
            return Ok(());
        }
        // No other reader continues while this reader has the turn.
        if self.begin().await?.is_none() || self.slot().await? != slot {
            return self.link()?.batch("ROLLBACK").await;
        }
        let done = match step {
            Step::Move => self.move_to(1 - slot).await,
            _ => self.truncate(1 - slot).await,
        };
        match done {
            // Such as a missing privilege, or a writer that stays. Rows are carried out all the same.
            Err(StoreError::Refused(why)) => self.hold(1 - slot, why).await,
            done => {
                self.held = None;
                done
            }
        }
    }

    async fn move_to(&self, slot: i64) -> Result<(), StoreError> {
        let link = self.link()?;
        link.rows(&self.sql.move_to(slot), &[]).await?;
        link.batch("COMMIT").await
    }

    /// Ends the transaction, and notes the transaction that holds the inactive table, or else why that is not truncated.
    async fn hold(&mut self, slot: i64, why: String) -> Result<(), StoreError> {
        self.link()?.batch("ROLLBACK").await?;
        let held = self.holder(slot, Duration::ZERO).await?.unwrap_or(why);
        if self.held.is_none() {
            tracing::warn!(held, "cannot truncate a table of settled outbox rows yet");
        }
        self.held = Some(held);
        Ok(())
    }

    async fn slot(&self) -> Result<i64, StoreError> {
        let found = self.link()?.rows(&self.sql.slot(), &[]).await?;
        Ok(found.first().map_or(0, |row| row.get(0)))
    }

    async fn shape(&self, slot: i64) -> Result<Shape, StoreError> {
        let found = self.link()?.rows(&self.sql.shape(slot), &[]).await?;
        let Some(found) = found.first() else { return Ok(Shape::default()) };
        let age = |column| {
            found
                .get::<_, Option<i64>>(column)
                .map(|ms| Duration::from_millis(u64::try_from(ms).unwrap_or(0)))
        };
        Ok(Shape { is_used: found.get(0), first: age(1), last: age(2) })
    }

    /// Ends the transaction of a turn, and truncates the table if every row is settled.
    async fn truncate(&self, slot: i64) -> Result<(), StoreError> {
        let link = self.link()?;
        link.batch(&self.sql.lock(slot, LOCK_WAIT_MS)).await?;
        // Every writer of the table has ended: every row is visible.
        let progress = link.rows(&self.sql.progress(), &[]).await?;
        let Some(progress) = progress.first().filter(|progress| progress.get(3)) else {
            return link.batch("ROLLBACK").await;
        };
        let before: String = progress.get(1);
        let of = [(&before as _, Type::TEXT)];
        let unsettled = link.rows(&self.sql.unsettled(slot), &of).await?;
        if unsettled.first().is_none_or(|row| row.get(0)) {
            return link.batch("ROLLBACK").await;
        }
        let of = [
            (&before as _, Type::TEXT),
            (&None::<String> as _, Type::TEXT),
            (&0_i64 as _, Type::INT8),
            (&None::<i64> as _, Type::INT8),
        ];
        link.rows(&self.sql.advance(), &of).await?;
        link.batch(&format!("{}; COMMIT", self.sql.truncate(slot))).await
    }

    /// The transaction that has kept the inactive table from being truncated for a while, if there is one.
    pub(super) async fn holding(&self) -> Result<Option<String>, StoreError> {
        let other = 1 - self.slot().await?;
        match self.shape(other).await?.is_used {
            true => self.holder(other, PATIENCE).await,
            false => Ok(None),
        }
    }

    /// The holder of a table, as a sentence.
    async fn holder(&self, slot: i64, longer_than: Duration) -> Result<Option<String>, StoreError> {
        let found = self.link()?.rows(&self.sql.holder(slot, longer_than.as_secs()), &[]).await?;
        let Some(found) = found.first() else { return Ok(None) };
        let Some(process) = found.get::<_, Option<i32>>(0) else {
            return Ok(Some("a prepared transaction".to_owned()));
        };
        let text = |column| found.get::<_, Option<String>>(column).unwrap_or_default();
        let seconds: Option<i64> = found.get(3);
        Ok(Some(format!(
            "process {process} (user {}, application {:?}), whose transaction began {} s ago",
            text(1),
            text(2),
            seconds.unwrap_or(0)
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_truncated_when_its_last_row_is_old_enough_and_the_other_takes_rows_once_it_is_empty() {
        let age = |s| Some(Duration::from_secs(s));
        let table = |first, last| Shape { is_used: true, first: age(first), last: age(last) };
        let (every, keep) = (Duration::from_secs(60), Duration::from_secs(100));
        // The table has only rolled-back rows.
        let dead = Shape { is_used: true, ..Shape::default() };
        for (current, other, expected) in [
            (Shape::default(), Shape::default(), Step::Nothing),
            (table(59, 0), Shape::default(), Step::Nothing),
            (table(60, 0), Shape::default(), Step::Move),
            (table(60, 0), table(200, 99), Step::Nothing),
            (table(1, 0), table(200, 100), Step::Truncate),
            (table(1, 0), dead, Step::Truncate),
            (dead, Shape::default(), Step::Nothing),
        ] {
            assert_eq!(step(current, other, every, keep), expected, "{current:?} {other:?}");
        }
    }
}
