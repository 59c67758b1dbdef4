//! An operator's work with an outbox in MySQL.

use super::connection::column;
use super::turn::{ROW, row_of};
use super::{MySql, sql};
use crate::outbox::keeper::{AsidePage, AsideRow, Each, Keeper};
use crate::outbox::row::{OutboxRow, RowKey};
use crate::outbox::store::{Books, StoreError};
use async_trait::async_trait;
use delayq::UnixMillis;
use std::time::Duration;

const SCHEMA: &str = include_str!("schema.sql");

#[async_trait]
impl Keeper for MySql {
    fn migration(&self) -> String {
        SCHEMA.to_owned()
    }

    async fn init(&mut self) -> Result<bool, StoreError> {
        let link = self.connection.open().await?;
        if link.first(sql::IS_THERE).await?.is_some() && link.first(sql::FIT).await?.is_some() {
            self.connect().await?;
            return Ok(false);
        }
        let made = async {
            for statement in statements() {
                link.run(&statement).await?;
            }
            Ok(true)
        };
        let made = made.await;
        self.ended(made)
    }

    /// Nothing has to be taken over: rows have no numbers of transactions.
    async fn adopt(&mut self) -> Result<u64, StoreError> {
        match self.connect().await?.first(sql::UNSETTLED_ROWS).await? {
            Some(mut found) => column(&mut found, 0),
            None => Ok(0),
        }
    }

    async fn books(&mut self) -> Result<Books, StoreError> {
        self.read_books().await
    }

    async fn aside(&mut self, page: AsidePage) -> Result<Vec<AsideRow>, StoreError> {
        let found = self.connect().await?.rows(&sql::aside_rows(page)).await?;
        found.into_iter().map(aside_of).collect()
    }

    async fn retry(&mut self, numbers: &[u64], force: bool) -> Result<Vec<u64>, StoreError> {
        let only = if force { "NOT resting" } else { "NOT resting AND NOT overtaken" };
        self.change(sql::retry, &sql::lock_aside(numbers, only)).await
    }

    async fn discard(&mut self, numbers: &[u64]) -> Result<Vec<u64>, StoreError> {
        self.change(sql::delete_aside, &sql::lock_aside(numbers, "TRUE")).await
    }

    async fn kept(&mut self, _since: Duration, _each: &mut Each<'_>) -> Result<(), StoreError> {
        Err(StoreError::Unfit(
            "no settled rows to reconcile with: in MySQL, settled rows are deleted".to_owned(),
        ))
    }

    /// None: none was kept.
    async fn rows_of(&mut self, _keys: &[RowKey]) -> Result<Vec<(usize, OutboxRow)>, StoreError> {
        Ok(Vec::new())
    }

    /// Nothing: reconciling never took the turn.
    async fn release(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
}

impl MySql {
    /// Changes the rows aside that a statement locks, and returns the numbers.
    async fn change(&mut self, change: fn(&[u64]) -> String, lock: &str) -> Result<Vec<u64>, StoreError> {
        let link = self.connect().await?;
        let changed = async {
            link.run("START TRANSACTION").await?;
            let mut numbers = Vec::new();
            for mut row in link.rows(lock).await? {
                numbers.push(column(&mut row, 0)?);
            }
            link.run(&change(&numbers)).await?;
            link.run("COMMIT").await?;
            Ok(numbers)
        };
        let changed = changed.await;
        self.ended(changed)
    }
}

/// The statements of the migration, one by one.
fn statements() -> Vec<String> {
    let code: String =
        SCHEMA.split_inclusive('\n').filter(|line| !line.trim_start().starts_with("--")).collect();
    code.split(';').map(str::trim).filter(|statement| !statement.is_empty()).map(str::to_owned).collect()
}

fn aside_of(mut found: mysql_async::Row) -> Result<AsideRow, StoreError> {
    Ok(AsideRow {
        number: column(&mut found, 0)?,
        row: row_of(&mut found)?.into(),
        reason: column(&mut found, ROW)?,
        since: UnixMillis::new(column(&mut found, ROW + 1)?),
        rests: column(&mut found, ROW + 2)?,
        overtaken: column(&mut found, ROW + 3)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbox::mysql::VERSION;

    #[test]
    fn the_migration_makes_the_version_that_is_read() {
        assert!(SCHEMA.contains(&format!("VALUES (1, {VERSION});")));
    }
}
