//! A PostgreSQL with an outbox, and its readers.

use crate::readers::Readers;
use delayq_compensator::OutboxConfig;
use delayq_tests::postgres_server::PostgresServer;
use std::ops::{Deref, DerefMut, Range};
use tokio_postgres::{Client, NoTls};

pub(crate) use crate::readers::{ms, topic};

pub(crate) struct Stand {
    pub(crate) postgres: PostgresServer,
    readers: Readers,
}

pub(crate) fn put(numbers: Range<u64>) -> String {
    format!(
        "INSERT INTO delayq_outbox (topic, id, due, payload) SELECT 'orders', 'm' || n, '2100-01-01Z', \
         convert_to('body of ' || n, 'UTF8') FROM generate_series({}, {}) n",
        numbers.start,
        numbers.end - 1
    )
}

/// Statements that shadow one of the database's functions, for later connections.
pub(crate) fn shadow(function: &str, body: &str) -> String {
    format!(
        "CREATE SCHEMA shadow; CREATE FUNCTION shadow.{function} LANGUAGE plpgsql AS $$BEGIN {body}; END$$; \
         ALTER ROLE postgres SET search_path TO shadow, pg_catalog, public"
    )
}

// === impl Stand ===

impl Stand {
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    pub(crate) async fn start_with(change: impl FnOnce(&mut OutboxConfig)) -> Self {
        Self::start_on(&[("max_prepared_transactions", "5")], change).await
    }

    pub(crate) async fn start_on(settings: &[(&str, &str)], change: impl FnOnce(&mut OutboxConfig)) -> Self {
        let postgres = PostgresServer::start_with(settings).await;
        let readers = Readers::new(postgres.url(), change).await;
        Self { postgres, readers }
    }

    pub(crate) async fn database(&self) -> Client {
        let (client, driver) = tokio_postgres::connect(&self.postgres.url(), NoTls).await.unwrap();
        tokio::spawn(driver);
        client
    }
}

impl Deref for Stand {
    type Target = Readers;

    fn deref(&self) -> &Readers {
        &self.readers
    }
}

impl DerefMut for Stand {
    fn deref_mut(&mut self) -> &mut Readers {
        &mut self.readers
    }
}
