//! The outbox: a table in which producers ask for writes within business transactions, and the reader that carries out the
//! rows.
//!
//! ```text
//! INSERT … COMMIT ─► take the turn ─► next rows, in order ─► put · cancel · reschedule ─► note the progress, COMMIT
//!                         ▲                                        │
//!                         └─── back off ◄── Redis is unavailable ──┘
//! ```
//! At least once: if the process dies between Redis's answer and the commit, rows are carried out again, under the same ids
//! and with the times of insertion.

mod config;
mod keeper;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(any(feature = "mysql", feature = "postgres"))]
mod parameters;
#[cfg(feature = "postgres")]
mod postgres;
mod reader;
mod reconcile;
mod row;
mod side_job;
mod store;
#[cfg(any(feature = "mysql", feature = "postgres"))]
mod tls;

use crate::codes::{NO_OUTBOX, OUTBOX};
use crate::taking::{LoopTimes, SourceDeps, SourceLoop, Taking};
use delayq_service::Fault;
use delayq_service::config::ExposeSecret as _;
use prometheus_client::metrics::gauge::Gauge;
use reader::{BOOKS_EVERY, Outbox};
use side_job::SideJob;
use std::time::Duration;
use store::{Store, StoreError};

pub use config::OutboxConfig;
pub use keeper::{AsideRow, AskedRow, OutboxKeeper};
pub use reconcile::{Reconcile, Reconciled};
pub use store::Books;

/// The longest rest between two tries while Redis or the database is unavailable, and between two looks for rows that rest.
const LONGEST_REST: Duration = Duration::from_secs(5);

/// Creates the reader of an outbox. Database and Redis may be unavailable.
///
/// # Errors
/// The configuration cannot be used, or the database has no outbox that fits.
pub async fn build_outbox(config: OutboxConfig, deps: SourceDeps) -> Result<SourceLoop, Fault> {
    let mut outbox = outbox_of(config, &deps)?;
    match outbox.store.books().await {
        Err(error @ StoreError::Unfit(_)) => Err(Fault::new(&OUTBOX, "the outbox").because(error)),
        _ => Ok(reader_of(outbox, deps)),
    }
}

/// Creates the reader of an outbox that is not looked at yet: while the outbox does not fit, the reader waits, and reports
/// that.
///
/// # Errors
/// The configuration cannot be used.
pub(crate) fn outbox_reader(config: OutboxConfig, deps: SourceDeps) -> Result<SourceLoop, Fault> {
    Ok(reader_of(outbox_of(config, &deps)?, deps))
}

fn reader_of(outbox: Outbox, deps: SourceDeps) -> SourceLoop {
    let reports = (outbox.metrics.clone(), outbox.condition.clone());
    let deadline = *outbox.config.deadline;
    let limits = LoopTimes { longest_rest: LONGEST_REST, deadline, noted_within: Duration::ZERO };
    SourceLoop(Box::new(Taking::new(outbox, deps.client, reports, limits)))
}

fn outbox_of(config: OutboxConfig, deps: &SourceDeps) -> Result<Outbox, Fault> {
    let store: Box<dyn Store> = match Database::of(&config)? {
        #[cfg(feature = "mysql")]
        Database::MySql => Box::new(mysql::MySql::new(&config)),
        #[cfg(feature = "postgres")]
        Database::Postgres => Box::new(postgres::Postgres::new(&config)),
    };
    let rotate_every = (*config.rotate_every / 10).min(Duration::from_secs(10));
    let held = "Whether a transaction keeps settled rows from being truncated: 1 or 0";
    Ok(Outbox {
        store,
        condition: deps.readiness.condition("outbox"),
        metrics: deps.metrics.of("outbox"),
        truncation_held: deps.metrics.own.register("outbox_truncation_held", held, Gauge::default()),
        idle_until: None,
        has_settled: false,
        is_aside: false,
        resting: 0,
        books: Books::default(),
        rotation: SideJob::new("rotate the outbox tables", rotate_every),
        books_job: SideJob::new("read the outbox counters", BOOKS_EVERY),
        config,
    })
}

/// The outbox of a database, for an operator. The first use connects.
///
/// # Errors
/// The configuration cannot be used.
pub fn outbox_keeper(config: &OutboxConfig) -> Result<OutboxKeeper, Fault> {
    match Database::of(config)? {
        #[cfg(feature = "mysql")]
        Database::MySql => Ok(OutboxKeeper(Box::new(mysql::MySql::new(config)))),
        #[cfg(feature = "postgres")]
        Database::Postgres => Ok(OutboxKeeper(Box::new(postgres::Postgres::new(config)))),
    }
}

/// A database that this program can read.
enum Database {
    #[cfg(feature = "mysql")]
    MySql,
    #[cfg(feature = "postgres")]
    Postgres,
}

// === impl Database ===

impl Database {
    /// The kind of the configured database. Checks the configuration for that kind.
    fn of(config: &OutboxConfig) -> Result<Self, Fault> {
        let url = config.url.as_ref().ok_or_else(|| Fault::new(&NO_OUTBOX, "`[outbox] url` is unset"))?;
        let url = url.reveal().map_err(|why| Fault::new(&OUTBOX, format!("outbox.url: {why}")))?;
        let scheme = url.expose_secret().split_once("://").map_or("", |(scheme, _)| scheme);
        match scheme {
            #[cfg(feature = "mysql")]
            "mysql" | "mariadb" => {
                mysql::settings(config).map_err(|why| Fault::new(&OUTBOX, why))?;
                Ok(Self::MySql)
            }
            #[cfg(feature = "postgres")]
            "postgres" | "postgresql" => {
                postgres::settings(config).map_err(|why| Fault::new(&OUTBOX, why))?;
                Ok(Self::Postgres)
            }
            _ => Err(Fault::new(
                &NO_OUTBOX,
                format!("`[outbox] url` has scheme {scheme:?}; this program was built for: {}", kinds()),
            )),
        }
    }
}

/// The kinds of databases that this program can read.
fn kinds() -> &'static str {
    match (cfg!(feature = "mysql"), cfg!(feature = "postgres")) {
        (true, true) => "mysql, postgres",
        (true, false) => "mysql",
        (false, true) => "postgres",
        (false, false) => "none",
    }
}
