//! The outbox in PostgreSQL.
//!
//! ```text
//! delayq_outbox            rows, inserted by producers into one of two tables
//! delayq_outbox_progress   before, until, seq: all that `before` sees is settled; of what `until` sees besides, up to `seq`
//! delayq_outbox_aside      rows that were rejected, or rest
//! delayq_outbox_state      one row, whose lock is the turn
//! ```
//! **No row is passed over.** A window is the rows between two snapshots: the later snapshot sees the row's transaction, and
//! the earlier does not. A transaction that commits late is in a later window, whatever the number, so no transaction is
//! missed, and an open one holds up no others. Within a window rows go by `seq`: if a transaction waited for another
//! transaction's commit, the rows come later in both orders.
//!
//! **No settled row is deleted.** Tables of settled rows are truncated, so there are no dead versions, whatever the oldest
//! snapshot of the database. The progress is inserted too, for the same reason. Only rows that an operator discards are
//! deleted.

pub(super) mod admin;
mod connection;
mod keys;
mod rotation;
mod sql;
mod turn;

use super::config::OutboxConfig;
use super::store::{Books, Store, StoreError, TurnTaken};
use crate::outcome::Outcome;
use async_trait::async_trait;
use connection::{Connection, PostgresLink};
use keys::{Key, Window};
use sql::Sql;
use std::time::Duration;

pub(super) use connection::settings;

/// The version of the tables.
const VERSION: i32 = 1;

/// An outbox.
pub(super) struct Postgres {
    config: OutboxConfig,
    sql: Sql,
    connection: Connection,
    /// The present connection was made to a database with a fitting outbox.
    is_fit: bool,
    /// The present window, as far as this process knows.
    window: Option<Window>,
    /// The present turn of this process.
    turn: Option<TurnRows>,
    /// The turn is being taken.
    is_taking: bool,
    /// The last number of the rows aside that were tried again; 0: begin with the first.
    tried_aside: i64,
    /// Maximum rows of the next page: fewer while the database cannot read a row.
    most: usize,
    /// The unreadable row, and why.
    unreadable: Option<(Key, String)>,
    /// The transaction that keeps a table from being truncated.
    held: Option<String>,
}

/// The rows of a turn.
#[derive(Debug)]
enum TurnRows {
    /// Rows of the window: the keys of existing rows, and the size of the page; `whole`: payloads and headers were read.
    Rows { keys: Vec<Key>, page: usize, whole: bool },
    /// Rows aside, by number.
    Aside(Vec<i64>),
}

// === impl Postgres ===

impl Postgres {
    pub(super) fn new(config: &OutboxConfig) -> Self {
        Self {
            sql: Sql::new(&config.schema),
            connection: Connection::new(config.clone()),
            config: config.clone(),
            is_fit: false,
            window: None,
            turn: None,
            is_taking: false,
            tried_aside: 0,
            most: config.batch.into(),
            unreadable: None,
            held: None,
        }
    }

    /// Connects, if there is no connection, and checks that there is an outbox that can be read.
    async fn connect(&mut self) -> Result<(), StoreError> {
        if self.connection.is_open() && self.is_fit {
            return Ok(());
        }
        (self.is_fit, self.window, self.turn) = (false, None, None);
        let found = self.connection.open().await?.rows(&self.sql.fit(), &[]).await?;
        let unfit = |why: String| Err(StoreError::Unfit(why));
        let Some(found) = found.first() else { return unfit("delayq_outbox_state has no row".to_owned()) };
        let version: i32 = found.get(0);
        if version != VERSION {
            return unfit(format!("the outbox has version {version}; this program reads {VERSION}"));
        }
        is_of(found.get(1))?;
        self.is_fit = true;
        Ok(())
    }

    /// The link, after [`Self::connect`].
    fn link(&self) -> Result<&PostgresLink, StoreError> {
        self.connection
            .present()
            .ok_or_else(|| StoreError::Unreachable("the connection is closed".to_owned()))
    }

    /// Forgets the connection with all that was under way, after an error.
    fn ended<T>(&mut self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        if result.is_err() {
            self.connection.close();
            (self.is_fit, self.window, self.turn) = (false, None, None);
        }
        result
    }
}

#[async_trait]
impl Store for Postgres {
    async fn take(&mut self, resting: bool) -> Result<TurnTaken, StoreError> {
        self.is_taking = true;
        let taken = self.take_turn(resting).await;
        self.is_taking = false;
        self.ended(taken)
    }

    async fn settle(&mut self, outcomes: Vec<Outcome>) -> Result<(), StoreError> {
        let settled = self.end_turn(outcomes).await;
        self.ended(settled)
    }

    async fn leave(&mut self) {
        if self.is_taking {
            // The read would continue, and this process may end before the request to cancel is sent.
            if let Some(asking) = self.connection.close() {
                let _ = asking.await;
            }
        } else if self.turn.take().is_some() {
            let rolled_back = match self.link() {
                Ok(link) => link.batch("ROLLBACK").await,
                Err(error) => Err(error),
            };
            // Without a connection there is no turn either.
            let _ = self.ended(rolled_back);
        }
    }

    async fn rotate(&mut self) -> Result<(), StoreError> {
        let rotated = self.rotate_tables().await;
        self.ended(rotated)
    }

    async fn books(&mut self) -> Result<Books, StoreError> {
        match self.read_books().await {
            // Outside of a transaction a refusal ends nothing.
            refused @ Err(StoreError::Refused(_)) => refused,
            books => self.ended(books),
        }
    }
}

impl Postgres {
    async fn read_books(&mut self) -> Result<Books, StoreError> {
        self.connect().await?;
        let found = self.link()?.rows(&self.sql.books(), &[]).await?;
        let found = found.first().ok_or_else(no_progress)?;
        let number = |column: usize| u64::try_from(found.get::<_, i64>(column)).unwrap_or(0);
        let oldest: Option<i64> = found.get(0);
        Ok(Books {
            oldest: oldest.map(|ms| Duration::from_millis(u64::try_from(ms).unwrap_or(0))),
            rejected: number(1),
            resting: number(2),
            bytes: number(3),
            held: self.held.clone(),
        })
    }
}

/// Refuses tables with transaction numbers of another cluster.
fn is_of(same_cluster: bool) -> Result<(), StoreError> {
    if same_cluster {
        return Ok(());
    }
    let why = "the outbox was restored from another cluster, with other transaction numbers; see delayq \
               outbox init --adopt";
    Err(StoreError::Unfit(why.to_owned()))
}

/// A dump that was made while a table was truncated may have none.
fn no_progress() -> StoreError {
    StoreError::Unfit("delayq_outbox_progress is empty; see delayq outbox init --adopt".to_owned())
}
