//! The operations of an outbox's database for a reader.

use super::row::OutboxRow;
use crate::outcome::Outcome;
use async_trait::async_trait;
use std::time::Duration;

/// Maximum time for a statement that reads whole tables.
pub(super) const SLOW: Duration = Duration::from_secs(600);

/// A database with an outbox.
///
/// # Contract
/// - One reader at a time has the turn, over all processes. The turn ends with [`Store::settle`], with an error, with the
///   connection, or with [`Store::leave`].
/// - No row comes before another row whose transaction had committed before the insertion. No row is passed over, even if
///   the transaction commits late.
/// - Unsettled rows are read again. After an error the store connects again at the next call.
#[async_trait]
pub(crate) trait Store: Send {
    /// Takes the turn, with resting rows if `resting`, else with the next rows.
    async fn take(&mut self, resting: bool) -> Result<TurnTaken, StoreError>;

    /// Ends the turn with the outcomes of the rows, in order. Rows behind the last outcome are still to be carried out; only
    /// rows aside may be held or untried in between.
    async fn settle(&mut self, outcomes: Vec<Outcome>) -> Result<(), StoreError>;

    /// Gives up the turn, or an unfinished [`take`](Self::take) that was dropped.
    async fn leave(&mut self);

    /// Truncates settled rows, and switches to the other table, if due.
    async fn rotate(&mut self) -> Result<(), StoreError>;

    /// Reads the books.
    async fn books(&mut self) -> Result<Books, StoreError>;
}

/// The result of [`Store::take`].
#[derive(Debug)]
pub(crate) enum TurnTaken {
    /// Nothing waits.
    Nothing,
    /// Another reader has the turn.
    Busy,
    /// The turn, with rows.
    Turn(Vec<OutboxRow>),
}

/// The waiting rows of an outbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Books {
    /// Age of the oldest row that is not carried out; `None`: none waits.
    pub oldest: Option<Duration>,
    /// Rows that were rejected.
    pub rejected: u64,
    /// Rows that rest.
    pub resting: u64,
    /// Bytes of the rows on disk, including settled rows.
    pub bytes: u64,
    /// The transaction that keeps settled rows from being truncated, and for how long; `None`: there is none.
    pub held: Option<String>,
}

/// A failure of the database.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum StoreError {
    /// The database cannot be reached or does not answer, but may later.
    #[error("cannot reach the database: {0}")]
    Unreachable(String),
    /// The database refuses.
    #[error("the database refuses: {0}")]
    Refused(String),
    /// The outbox is missing, of another version, or of another cluster.
    #[error("{0}")]
    Unfit(String),
}

/// Bounds a request to a database: a hanging database is an error.
pub(super) async fn within<T>(
    limit: Duration,
    asked: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let timed_out = |_| StoreError::Unreachable(format!("no reply within {limit:?}"));
    tokio::time::timeout(limit, asked).await.map_err(timed_out)?
}
