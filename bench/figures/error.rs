//! Why a figure is missing.

use delayq::PutError;
use delayq::protocol::NameError;
use delayq_spool::SpoolError;
use std::io;

#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchError {
    #[error("the bare client: {0}")]
    Bare(#[from] io::Error),
    #[error("delayq: {0}")]
    Delayq(#[from] delayq::Error),
    #[error("delayq: {0}")]
    Put(#[from] PutError),
    #[error("the spool: {0}")]
    Spool(#[from] SpoolError),
    #[error("bare SQLite: {0}")]
    Sqlite(#[from] rusqlite::Error),
    #[error("PostgreSQL: {0}")]
    Postgres(#[from] tokio_postgres::Error),
    #[error("delayq: {0}")]
    Name(#[from] NameError),
    #[error("{0}")]
    Wrong(String),
}
