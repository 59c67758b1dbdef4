//! What an operator does with an outbox.

use super::reconcile::RowKey;
use super::row::Row;
use super::store::{Books, StoreError};
use crate::codes::OUTBOX;
use async_trait::async_trait;
use delayq::UnixMillis;
use delayq::spool::SpoolRecord;
use delayq_service::Fault;
use std::time::Duration;

/// Takes a row.
pub(super) type Each<'a> = dyn FnMut(RowKey, Row) + Send + 'a;

/// What a database does for an operator.
///
/// # Contract
/// Each method connects by itself, and may be called while readers run.
#[async_trait]
pub(super) trait Keeper: Send {
    /// The statements that make the tables, with notices of new rows or without.
    fn migration(&self, notify: bool) -> String;

    /// Makes the tables, all or none; false: they are there already.
    async fn init(&mut self, notify: bool) -> Result<bool, StoreError>;

    /// Takes over tables that came from another cluster; returns how many rows wait in them.
    async fn adopt(&mut self) -> Result<u64, StoreError>;

    /// What waits.
    async fn books(&mut self) -> Result<Books, StoreError>;

    /// Rows aside.
    async fn aside(&mut self, page: Page) -> Result<Vec<AsideRow>, StoreError>;

    /// Has rejected rows tried again, overtaken ones only by force; returns which are.
    async fn retry(&mut self, numbers: &[u64], force: bool) -> Result<Vec<u64>, StoreError>;

    /// Deletes rows aside; returns which were there.
    async fn discard(&mut self, numbers: &[u64]) -> Result<Vec<u64>, StoreError>;

    /// Waits for the turn and keeps it; passes on the kept rows that are no older than this and not aside, without their
    /// payloads, in the order of [`Store`](super::store::Store).
    async fn kept(&mut self, since: Duration, each: &mut Each<'_>) -> Result<(), StoreError>;

    /// Rows that are there, each with its place in the keys.
    async fn rows_of(&mut self, keys: &[RowKey]) -> Result<Vec<(usize, Row)>, StoreError>;

    /// Gives up the turn.
    async fn release(&mut self) -> Result<(), StoreError>;
}

/// Which rows aside: in order, behind a number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Page {
    /// Those that rest, or rejected ones.
    pub(super) resting: bool,
    pub(super) after: u64,
    pub(super) most: usize,
    /// With payloads and headers; then as many as their bytes allow, and one at least.
    pub(super) whole: bool,
}

/// An outbox, for an operator.
pub struct OutboxKeeper(pub(super) Box<dyn Keeper>);

/// A row that is kept aside.
#[derive(Clone, Debug)]
pub struct AsideRow {
    /// Its number.
    pub number: u64,
    /// Whether it rests until it is tried again; or it was rejected.
    pub rests: bool,
    /// Whether a later row of its message was carried out since.
    pub overtaken: bool,
    /// Why it is kept aside.
    pub reason: String,
    /// Since when, by the database's clock.
    pub since: UnixMillis,
    /// What it asks for.
    pub row: AskedRow,
}

/// What a row asks for.
#[derive(Clone, Debug)]
pub struct AskedRow(Row);

// === impl OutboxKeeper ===

impl OutboxKeeper {
    /// The statements that make the tables, with a trigger that notifies of new rows or without.
    pub fn migration(&self, notify: bool) -> String {
        self.0.migration(notify)
    }

    /// Makes the tables, all or none; false: they are there already.
    ///
    /// # Errors
    /// The database cannot be used, or its tables are of another version or cluster.
    pub async fn init(&mut self, notify: bool) -> Result<bool, Fault> {
        self.0.init(notify).await.map_err(unusable)
    }

    /// Takes over tables that came from another cluster by a dump or an upgrade; returns how many rows wait in them.
    ///
    /// # Errors
    /// The database cannot be used, or has no tables.
    pub async fn adopt(&mut self) -> Result<u64, Fault> {
        self.0.adopt().await.map_err(unusable)
    }

    /// What waits.
    ///
    /// # Errors
    /// The outbox cannot be read.
    pub async fn books(&mut self) -> Result<Books, Fault> {
        self.0.books().await.map_err(unusable)
    }

    /// Rows aside behind a number, in order: those that rest, or rejected ones. At most so many, and fewer where they have
    /// more than 8 MiB; none: there are no more.
    ///
    /// # Errors
    /// The outbox cannot be read.
    pub async fn aside(&mut self, resting: bool, after: u64, most: usize) -> Result<Vec<AsideRow>, Fault> {
        self.0.aside(Page { resting, after, most, whole: true }).await.map_err(unusable)
    }

    /// The same without payloads and headers, so that as many come as are asked for.
    ///
    /// # Errors
    /// The outbox cannot be read.
    pub async fn aside_names(
        &mut self,
        resting: bool,
        after: u64,
        most: usize,
    ) -> Result<Vec<AsideRow>, Fault> {
        self.0.aside(Page { resting, after, most, whole: false }).await.map_err(unusable)
    }

    /// Has rejected rows tried again; by force also overtaken ones, which undo a later write of their message. Returns which
    /// are tried again.
    ///
    /// # Errors
    /// The outbox cannot be changed.
    pub async fn retry(&mut self, numbers: &[u64], force: bool) -> Result<Vec<u64>, Fault> {
        self.0.retry(numbers, force).await.map_err(unusable)
    }

    /// Deletes rows aside, rejected or resting; returns which were there.
    ///
    /// # Errors
    /// The outbox cannot be changed.
    pub async fn discard(&mut self, numbers: &[u64]) -> Result<Vec<u64>, Fault> {
        self.0.discard(numbers).await.map_err(unusable)
    }

    pub(super) async fn kept(&mut self, since: Duration, each: &mut Each<'_>) -> Result<(), Fault> {
        self.0.kept(since, each).await.map_err(unusable)
    }

    pub(super) async fn rows_of(&mut self, keys: &[RowKey]) -> Result<Vec<(usize, Row)>, Fault> {
        self.0.rows_of(keys).await.map_err(unusable)
    }

    pub(super) async fn release(&mut self) -> Result<(), Fault> {
        self.0.release().await.map_err(unusable)
    }
}

fn unusable(error: StoreError) -> Fault {
    Fault::new(&OUTBOX, "the outbox").because(error)
}

// === impl AskedRow ===

impl AskedRow {
    /// The verb as it is written.
    pub fn verb(&self) -> &str {
        &self.0.verb
    }

    /// The topic as it is written.
    pub fn topic(&self) -> &str {
        &self.0.topic
    }

    /// The id as it is written.
    pub fn id(&self) -> &str {
        &self.0.id
    }

    /// The payload; `None`: it has none, or one that no message can have.
    pub fn payload(&self) -> Option<&[u8]> {
        self.0.payload.as_deref()
    }

    /// The write, tried when the row was added.
    ///
    /// # Errors
    /// Why it is none.
    pub fn record(&self) -> Result<SpoolRecord, String> {
        self.0.clone().record(delayq_service::host_now())
    }
}

impl From<Row> for AskedRow {
    fn from(row: Row) -> Self {
        Self(row)
    }
}
