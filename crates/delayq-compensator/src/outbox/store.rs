//! What an outbox's database does for the one that reads it.

use super::row::Row;
use async_trait::async_trait;
use std::time::Duration;

/// How long a statement may take that reads whole tables.
pub(super) const SLOW: Duration = Duration::from_secs(600);

/// A database with an outbox.
///
/// # Contract
/// - One reader at a time has the turn, over all processes; it ends with [`Store::settle`], with an error, with the
///   connection, or with [`Store::leave`].
/// - Rows come in an order in which none precedes one whose transaction had committed before it was inserted, and none is
///   passed over, however late its transaction commits.
/// - What was not settled is read again. After an error the store connects again at the next call.
#[async_trait]
pub(crate) trait Store: Send {
    /// Takes the turn, with rows that rest if asked for, else with the next ones.
    async fn take(&mut self, resting: bool) -> Result<Taken, StoreError>;

    /// Ends the turn: what became of its rows, in their order. Those behind the last verdict are still to be carried out;
    /// only rows aside may be [`Verdict::Untried`] in between.
    async fn settle(&mut self, verdicts: Vec<Verdict>) -> Result<(), StoreError>;

    /// Gives up the turn, or a [`take`](Self::take) that was dropped before it ended.
    async fn leave(&mut self);

    /// Truncates what is settled, and moves on to the other table, if it is time.
    async fn rotate(&mut self) -> Result<(), StoreError>;

    /// What waits.
    async fn books(&mut self) -> Result<Books, StoreError>;
}

/// What a reader got.
#[derive(Debug)]
pub(crate) enum Taken {
    /// Nothing waits.
    Nothing,
    /// Another one has the turn.
    Busy,
    /// The turn, with its rows.
    Turn(Vec<Row>),
}

/// What became of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It was carried out.
    Done,
    /// It never can be, for this reason.
    Rejected(String),
    /// It cannot be carried out now, although others can, for this reason.
    Rests(String),
    /// It is still to be carried out.
    Untried,
}

/// What waits in an outbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Books {
    /// How long the oldest row waits that is not carried out; `None`: none waits.
    pub oldest: Option<Duration>,
    /// Rows that were rejected.
    pub rejected: u64,
    /// Rows that rest.
    pub resting: u64,
    /// What the rows take on disk, settled ones included.
    pub bytes: u64,
    /// What keeps a table of settled rows from being truncated, and for how long it has; `None`: nothing.
    pub held: Option<String>,
}

/// Why the database does not do it.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum StoreError {
    /// It cannot be reached or does not answer: it may later.
    #[error("the database cannot be reached: {0}")]
    Unreachable(String),
    /// It refuses.
    #[error("the database refuses: {0}")]
    Refused(String),
    /// Its outbox is missing, of another version, or of another cluster.
    #[error("{0}")]
    Unfit(String),
}

/// Bounds what is asked of a database: one that hangs is an error.
pub(super) async fn within<T>(
    limit: Duration,
    asked: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let timed_out = |_| StoreError::Unreachable(format!("no answer within {limit:?}"));
    tokio::time::timeout(limit, asked).await.map_err(timed_out)?
}
