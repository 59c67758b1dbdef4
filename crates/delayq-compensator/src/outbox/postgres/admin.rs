//! An operator's work with an outbox in PostgreSQL.

use super::Postgres;
use super::connection::Param;
use super::turn::{ROW, place_of, row_of};
use crate::outbox::keeper::{AsidePage, AsideRow, Each, Keeper};
use crate::outbox::row::{OutboxRow, RowKey};
use crate::outbox::store::{Books, SLOW, StoreError};
use async_trait::async_trait;
use delayq::UnixMillis;
use std::time::Duration;
use tokio_postgres::types::Type;

#[async_trait]
impl Keeper for Postgres {
    fn migration(&self) -> String {
        self.sql.schema()
    }

    async fn init(&mut self) -> Result<bool, StoreError> {
        let link = self.connection.open().await?;
        let found = link.rows(&self.sql.is_there(), &[]).await?;
        if found.first().is_some_and(|row| row.get(0)) {
            self.connect().await?;
            return Ok(false);
        }
        let statements = format!("BEGIN; {} COMMIT;", self.sql.schema());
        let made = link.batch(&statements).await.map(|()| true);
        self.ended(made)
    }

    async fn adopt(&mut self) -> Result<u64, StoreError> {
        let link = self.connection.open().await?;
        let adopted = async {
            link.batch_within(SLOW, &self.sql.adopt()).await?;
            let mut waiting = 0_i64;
            link.each_row(&self.sql.adopted(), &[], |row| waiting = row.get(0)).await?;
            link.batch("COMMIT").await?;
            Ok(waiting.unsigned_abs())
        };
        let adopted = adopted.await;
        self.ended(adopted)
    }

    async fn books(&mut self) -> Result<Books, StoreError> {
        let books = self.read_books().await?;
        let held = self.holding().await?;
        Ok(Books { held, ..books })
    }

    async fn aside(&mut self, page: AsidePage) -> Result<Vec<AsideRow>, StoreError> {
        self.connect().await?;
        let statement = if page.whole { self.sql.aside_rows() } else { self.sql.aside_names() };
        let (after, most) = (number(page.after), i64::try_from(page.most).unwrap_or(i64::MAX));
        let of = [(&page.resting as _, Type::BOOL), (&after as _, Type::INT8), (&most as _, Type::INT8)];
        let found = self.link()?.rows(&statement, &of).await?;
        Ok(found.iter().map(aside_of).collect())
    }

    async fn retry(&mut self, numbers: &[u64], force: bool) -> Result<Vec<u64>, StoreError> {
        let statement = self.sql.retry();
        self.change(&statement, numbers, Some((&force, Type::BOOL))).await
    }

    async fn discard(&mut self, numbers: &[u64]) -> Result<Vec<u64>, StoreError> {
        let statement = self.sql.discard();
        self.change(&statement, numbers, None).await
    }

    async fn kept(&mut self, since: Duration, each: &mut Each<'_>) -> Result<(), StoreError> {
        self.connect().await?;
        let since = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
        let link = self.link()?;
        link.batch_within(SLOW, &self.sql.hold()).await?;
        let each = |row: &tokio_postgres::Row| each((row.get(0), row.get(ROW)), row_of(row));
        link.each_row(&self.sql.kept(), &[(&since as _, Type::INT8)], each).await
    }

    async fn rows_of(&mut self, keys: &[RowKey]) -> Result<Vec<(usize, OutboxRow)>, StoreError> {
        let (txs, seqs): (Vec<i64>, Vec<i64>) = keys.iter().copied().unzip();
        let of = [(&txs as _, Type::INT8_ARRAY), (&seqs as _, Type::INT8_ARRAY)];
        let found = self.link()?.rows(&self.sql.rows(), &of).await?;
        Ok(found.iter().map(|row| (place_of(row), row_of(row))).collect())
    }

    async fn release(&mut self) -> Result<(), StoreError> {
        self.link()?.batch("ROLLBACK").await
    }
}

impl Postgres {
    /// Changes rows aside, and returns the numbers of existing rows.
    async fn change(
        &mut self,
        statement: &str,
        numbers: &[u64],
        more: Option<Param<'_>>,
    ) -> Result<Vec<u64>, StoreError> {
        self.connect().await?;
        let numbers: Vec<i64> = numbers.iter().copied().map(number).collect();
        let params: Vec<Param<'_>> = std::iter::once((&numbers as _, Type::INT8_ARRAY)).chain(more).collect();
        let found = self.link()?.rows(statement, &params).await?;
        Ok(found.iter().map(|row| row.get::<_, i64>(0).unsigned_abs()).collect())
    }
}

fn aside_of(found: &tokio_postgres::Row) -> AsideRow {
    let since: i64 = found.get(ROW + 1);
    AsideRow {
        number: found.get::<_, i64>(0).unsigned_abs(),
        reason: found.get(ROW),
        rests: found.get(ROW + 2),
        overtaken: found.get(ROW + 3),
        since: UnixMillis::new(since.unsigned_abs()),
        row: row_of(found).into(),
    }
}

fn number(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
