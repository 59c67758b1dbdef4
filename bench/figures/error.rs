//! Why there is no figure.

use delayq::PutError;
use delayq::protocol::NameError;
use delayq_spool::SpoolError;
use std::io;

/// Why there is no figure.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchError {
    /// The bare client failed.
    #[error("the bare client: {0}")]
    Bare(#[from] io::Error),
    /// delayq failed.
    #[error("delayq: {0}")]
    Delayq(#[from] delayq::Error),
    /// A message was not put.
    #[error("delayq: {0}")]
    Put(#[from] PutError),
    /// The spool failed.
    #[error("the spool: {0}")]
    Spool(#[from] SpoolError),
    /// Bare SQLite failed.
    #[error("bare SQLite: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// The database of an outbox failed.
    #[error("PostgreSQL: {0}")]
    Postgres(#[from] tokio_postgres::Error),
    /// A name is invalid.
    #[error("delayq: {0}")]
    Name(#[from] NameError),
    /// Something was not as it must be.
    #[error("{0}")]
    Wrong(String),
}
