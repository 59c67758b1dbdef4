//! An operator's work with an outbox.

use super::row::{OutboxRow, RowKey};
use super::store::{Books, StoreError};
use crate::codes::OUTBOX;
use async_trait::async_trait;
use delayq::UnixMillis;
use delayq::spool::SpoolRecord;
use delayq_service::Fault;
use std::time::Duration;

/// Takes a row.
pub(super) type Each<'a> = dyn FnMut(RowKey, OutboxRow) + Send + 'a;

/// A database's operations for an operator.
///
/// # Contract
/// Each method connects by itself, and may be called while readers run.
#[async_trait]
pub(super) trait Keeper: Send {
    /// The statements that make the tables.
    fn migration(&self) -> String;

    /// Creates the tables, all or none; false: the tables exist already.
    async fn init(&mut self) -> Result<bool, StoreError>;

    /// Takes over tables from another cluster; returns the number of waiting rows.
    async fn adopt(&mut self) -> Result<u64, StoreError>;

    /// The books: the waiting rows.
    async fn books(&mut self) -> Result<Books, StoreError>;

    /// Rows aside.
    async fn aside(&mut self, page: AsidePage) -> Result<Vec<AsideRow>, StoreError>;

    /// Lets rejected rows be tried again, but overtaken rows only by force; returns which are.
    async fn retry(&mut self, numbers: &[u64], force: bool) -> Result<Vec<u64>, StoreError>;

    /// Deletes rows aside; returns which were there.
    async fn discard(&mut self, numbers: &[u64]) -> Result<Vec<u64>, StoreError>;

    /// Waits for the turn and keeps the turn. Passes on kept rows up to this age that are not aside, without payloads, in
    /// the order of [`Store`](super::store::Store).
    async fn kept(&mut self, since: Duration, each: &mut Each<'_>) -> Result<(), StoreError>;

    /// Existing rows, each with the place in `keys`.
    async fn rows_of(&mut self, keys: &[RowKey]) -> Result<Vec<(usize, OutboxRow)>, StoreError>;

    /// Gives up the turn.
    async fn release(&mut self) -> Result<(), StoreError>;
}

/// A page of rows aside, in order, behind a number.
#[derive(Clone, Copy, Debug)]
pub(super) struct AsidePage {
    /// Resting rows, or rejected rows.
    pub(super) resting: bool,
    pub(super) after: u64,
    pub(super) most: usize,
    /// With payloads and headers; then as many rows as the bytes allow, and at least one.
    pub(super) whole: bool,
}

/// An outbox, for an operator.
pub struct OutboxKeeper(pub(super) Box<dyn Keeper>);

/// A row that is kept aside.
#[derive(Clone, Debug)]
pub struct AsideRow {
    /// Its number.
    pub number: u64,
    /// The row rests until another try; false: rejected.
    pub rests: bool,
    /// A later row of the message was carried out since.
    pub overtaken: bool,
    /// Why the row is kept aside.
    pub reason: String,
    /// Since when, by the database's clock.
    pub since: UnixMillis,
    /// The request.
    pub row: AskedRow,
}

/// The request of a row.
#[derive(Clone, Debug)]
pub struct AskedRow(OutboxRow);

// === impl OutboxKeeper ===

impl OutboxKeeper {
    /// The statements that make the tables.
    pub fn migration(&self) -> String {
        self.0.migration()
    }

    /// Creates the tables, all or none; false: the tables exist already.
    ///
    /// # Errors
    /// The database cannot be used, or the tables are of another version or cluster.
    pub async fn init(&mut self) -> Result<bool, Fault> {
        self.0.init().await.map_err(unusable)
    }

    /// Takes over tables that came from another cluster by a dump or an upgrade; returns the number of waiting rows.
    ///
    /// # Errors
    /// The database cannot be used, or has no tables.
    pub async fn adopt(&mut self) -> Result<u64, Fault> {
        self.0.adopt().await.map_err(unusable)
    }

    /// The books: the waiting rows.
    ///
    /// # Errors
    /// The outbox cannot be read.
    pub async fn books(&mut self) -> Result<Books, Fault> {
        self.0.books().await.map_err(unusable)
    }

    /// Rows aside behind a number, in order: resting or rejected rows. At most so many, and fewer above 8 MiB; none: there
    /// are no more.
    ///
    /// # Errors
    /// The outbox cannot be read.
    pub async fn aside(&mut self, resting: bool, after: u64, most: usize) -> Result<Vec<AsideRow>, Fault> {
        self.0.aside(AsidePage { resting, after, most, whole: true }).await.map_err(unusable)
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
        self.0.aside(AsidePage { resting, after, most, whole: false }).await.map_err(unusable)
    }

    /// Lets rejected rows be tried again; by force also overtaken rows, which undo a later write of the message. Returns the
    /// numbers of rows to be tried.
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

    pub(super) async fn rows_of(&mut self, keys: &[RowKey]) -> Result<Vec<(usize, OutboxRow)>, Fault> {
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
    /// The verb as written.
    pub fn verb(&self) -> &str {
        &self.0.verb
    }

    /// The topic as written.
    pub fn topic(&self) -> &str {
        &self.0.topic
    }

    /// The id as written.
    pub fn id(&self) -> &str {
        &self.0.id
    }

    /// The payload; `None`: there is none, or a payload that no message can have.
    pub fn payload(&self) -> Option<&[u8]> {
        self.0.payload.as_deref()
    }

    /// The write, tried when the row was added.
    ///
    /// # Errors
    /// The row is no valid write.
    pub fn record(&self) -> Result<SpoolRecord, String> {
        self.0.clone().record(delayq_service::host_now())
    }
}

impl From<OutboxRow> for AskedRow {
    fn from(row: OutboxRow) -> Self {
        Self(row)
    }
}
