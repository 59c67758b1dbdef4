//! The outbox in MySQL and MariaDB.
//!
//! ```text
//! delayq_outbox         rows, inserted by producers
//! delayq_outbox_aside   rows that were rejected, or rest
//! delayq_outbox_state   one row, whose lock is the turn
//! ```
//! **No row is passed over**, because there is no cursor that could pass a row. A turn reads the first committed rows, and
//! deletes settled rows, by number. A transaction that commits late shows all rows to the next turn, whatever the numbers; a
//! number that is never used, after a rollback, is nothing to wait for. A cursor would have to know that nobody can fill a
//! gap any more, which InnoDB does not say: `AUTO_INCREMENT` gives a number before the row can be seen or locked, and long
//! statements get many at a time.
//!
//! **In order.** Numbers are given in ascending order, so a row that was inserted after another one's commit has a larger
//! number; and a reader that sees the later row sees the earlier one too, unless that is settled. The exception is
//! documented: an `INSERT … SELECT` that reserves numbers ahead of rows.
//!
//! **Rows are deleted**, and the table is not truncated: `TRUNCATE` commits the open transaction, and waits for each
//! transaction that has used the table, while all producers wait. The price: while an old read view is held, deleted rows
//! are not purged, and each turn scans all of those.

mod admin;
mod connection;
mod sql;
mod turn;

use super::config::OutboxConfig;
use super::store::{Books, Store, StoreError, TurnTaken};
use crate::outcome::Outcome;
use async_trait::async_trait;
use connection::{Connection, MySqlLink, column};
use std::time::Duration;

pub(super) use connection::settings;

/// The version of the tables.
const VERSION: u32 = 1;

/// An outbox.
pub(super) struct MySql {
    config: OutboxConfig,
    connection: Connection,
    /// The present connection was made to a database with a fitting outbox.
    is_fit: bool,
    /// The present turn of this process.
    turn: Option<TurnRows>,
    /// The turn is being taken.
    is_taking: bool,
    /// The last number of the rows aside that were tried again; 0: begin with the first.
    tried_aside: u64,
    /// Maximum rows of the next page: fewer while the database cannot read a row.
    most: usize,
    /// Why the database cannot read the first row.
    unreadable: Option<String>,
}

/// The rows of a turn.
#[derive(Debug)]
enum TurnRows {
    /// Rows, by seq; `whole`: payloads and headers were read.
    Rows { seqs: Vec<u64>, whole: bool },
    /// Rows aside, by number.
    Aside(Vec<u64>),
}

// === impl MySql ===

impl MySql {
    pub(super) fn new(config: &OutboxConfig) -> Self {
        Self {
            connection: Connection::new(config.clone()),
            config: config.clone(),
            is_fit: false,
            turn: None,
            is_taking: false,
            tried_aside: 0,
            most: config.batch.into(),
            unreadable: None,
        }
    }

    /// The connection to a readable outbox; connects if needed.
    async fn connect(&mut self) -> Result<&mut MySqlLink, StoreError> {
        if !self.connection.is_open() || !self.is_fit {
            (self.is_fit, self.turn) = (false, None);
            let found = self.connection.open().await?.first(sql::FIT).await?;
            let unfit = |why: String| Err(StoreError::Unfit(why));
            let Some(mut found) = found else {
                return unfit("delayq_outbox_state has no row; see delayq outbox init".to_owned());
            };
            let version: u32 = column(&mut found, 0)?;
            if version != VERSION {
                return unfit(format!("the outbox has version {version}; this program reads {VERSION}"));
            }
            self.is_fit = true;
        }
        self.connection.open().await
    }

    /// Forgets the connection with all that was under way, after an error.
    fn ended<T>(&mut self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        if result.is_err() {
            self.connection.close();
            (self.is_fit, self.turn) = (false, None);
        }
        result
    }

    async fn read_books(&mut self) -> Result<Books, StoreError> {
        let found = self.connect().await?.first(sql::BOOKS).await?;
        let mut found = found.ok_or_else(|| StoreError::Unfit("the outbox has no counters".to_owned()))?;
        let oldest: Option<u64> = column(&mut found, 0)?;
        Ok(Books {
            oldest: oldest.map(Duration::from_millis),
            rejected: column(&mut found, 1)?,
            resting: column(&mut found, 2)?,
            bytes: column(&mut found, 3)?,
            held: None,
        })
    }
}

#[async_trait]
impl Store for MySql {
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
            self.connection.close();
        } else if self.turn.take().is_some()
            && let Some(link) = self.connection.present()
        {
            let rolled_back = link.run("ROLLBACK").await;
            // Without a connection there is no turn either.
            let _ = self.ended(rolled_back);
        }
    }

    /// Nothing: settled rows were deleted.
    async fn rotate(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn books(&mut self) -> Result<Books, StoreError> {
        match self.read_books().await {
            // Outside of a transaction a refusal ends nothing.
            refused @ Err(StoreError::Refused(_)) => refused,
            books => self.ended(books),
        }
    }
}
