//! The outbox: a table in which producers ask for writes within their own transactions, and the one who carries them out.
//!
//! ```text
//! INSERT … COMMIT ─► take the turn ─► next rows, in order ─► put · cancel · reschedule ─► note the progress, COMMIT
//!                         ▲                                        │
//!                         └─── back off ◄── Redis is unavailable ──┘
//! ```
//! At least once: if the process dies between Redis's answer and the commit, rows are carried out again, under the same ids
//! and with the time when they were added.

mod carry;
mod config;
mod keeper;
mod metrics;
#[cfg(feature = "mysql")]
mod mysql;
mod notices;
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
use crate::source_metrics::SourcesMetrics;
use crate::writes::Carrier;
use delayq::Client;
use delayq_service::config::ExposeSecret as _;
use delayq_service::{Fault, Readiness};
use metrics::OutboxMetrics;
use notices::Notices;
use reader::{BOOKS_EVERY, Listen, Resting};
use side_job::SideJob;
use std::time::Duration;
use store::{Store, StoreError};

pub use config::OutboxConfig;
pub use keeper::{AsideRow, AskedRow, OutboxKeeper};
pub use reader::OutboxReader;
pub use reconcile::{Reconcile, Reconciled};
pub use store::Books;

/// What the reader of an outbox works with.
pub struct OutboxDeps {
    /// The deployment.
    pub client: Client,
    /// Where it registers its metrics.
    pub metrics: SourcesMetrics,
    /// Where it reports whether rows can be carried out, as the condition `outbox`.
    pub readiness: Readiness,
}

/// Creates the reader of an outbox. Database and Redis may be unavailable.
///
/// # Errors
/// The configuration cannot be used, or the database has no outbox that fits.
pub async fn build_outbox(config: OutboxConfig, deps: OutboxDeps) -> Result<OutboxReader, Fault> {
    let mut reader = outbox_reader(config, deps)?;
    match reader.store.books().await {
        Err(error @ StoreError::Unfit(_)) => Err(Fault::new(&OUTBOX, "the outbox").because(error)),
        _ => Ok(reader),
    }
}

/// Creates the reader of an outbox that is not looked at yet: while it does not fit, the reader waits, and says so.
///
/// # Errors
/// The configuration cannot be used.
pub(crate) fn outbox_reader(config: OutboxConfig, deps: OutboxDeps) -> Result<OutboxReader, Fault> {
    let notices = Notices::default();
    #[cfg_attr(not(feature = "postgres"), allow(unused_mut, reason = "only PostgreSQL has notices"))]
    let mut listen: Option<Listen> = None;
    let store: Box<dyn Store> = match Kind::of(&config)? {
        #[cfg(feature = "mysql")]
        Kind::MySql => Box::new(mysql::MySql::new(&config)),
        #[cfg(feature = "postgres")]
        Kind::Postgres => {
            if config.notify {
                listen = Some(Box::pin(postgres::notify::listen(config.clone(), notices.clone())));
            }
            Box::new(postgres::Postgres::new(&config))
        }
    };
    let rotate_every = (*config.rotate_every / 10).min(Duration::from_secs(10));
    Ok(OutboxReader {
        store,
        carrier: Carrier::new(deps.client),
        metrics: OutboxMetrics::register(&deps.metrics),
        condition: deps.readiness.condition("outbox"),
        notices,
        listen,
        failures: 0,
        resting: Resting::new(),
        rotation: SideJob::new("rotate the tables of the outbox", rotate_every),
        books: SideJob::new("read the books of the outbox", BOOKS_EVERY),
        config,
    })
}

/// The outbox of a database, for an operator. It connects on first use.
///
/// # Errors
/// The configuration cannot be used.
pub fn outbox_keeper(config: &OutboxConfig) -> Result<OutboxKeeper, Fault> {
    match Kind::of(config)? {
        #[cfg(feature = "mysql")]
        Kind::MySql => Ok(OutboxKeeper(Box::new(mysql::MySql::new(config)))),
        #[cfg(feature = "postgres")]
        Kind::Postgres => Ok(OutboxKeeper(Box::new(postgres::Postgres::new(config)))),
    }
}

/// A database that this program can read.
enum Kind {
    #[cfg(feature = "mysql")]
    MySql,
    #[cfg(feature = "postgres")]
    Postgres,
}

// === impl Kind ===

impl Kind {
    /// The kind of the configured one, with a configuration that it can use.
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
                format!("`[outbox] url` is of {scheme:?}; this program was built with: {}", kinds()),
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
