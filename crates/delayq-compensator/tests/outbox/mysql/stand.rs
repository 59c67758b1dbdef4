//! A MariaDB with an outbox, and its readers.

use crate::readers::Readers;
use delayq_compensator::OutboxConfig;
use delayq_tests::mariadb_server::MariadbServer;
use mysql_async::prelude::Queryable as _;
use mysql_async::{Conn, Opts};
use std::ops::{Deref, DerefMut, Range};

pub(crate) struct Stand {
    pub(crate) mariadb: MariadbServer,
    readers: Readers,
}

pub(crate) struct Database(pub(crate) Conn);

pub(crate) fn put(numbers: Range<u64>) -> String {
    let rows: Vec<_> = numbers.map(|n| format!("('orders', 'm{n}', '2037-01-01', 'body of {n}')")).collect();
    format!("INSERT INTO delayq_outbox (topic, id, due, payload) VALUES {}", rows.join(", "))
}

pub(crate) fn payload_by(expression: &str) -> String {
    format!(
        "RENAME TABLE delayq_outbox TO base; CREATE VIEW delayq_outbox AS SELECT seq, added, verb, topic, id, group_id, due, \
         delay_ms, expected, {expression} AS payload, headers, expires, max_attempts, replaces, again FROM base"
    )
}

// === impl Stand ===

impl Stand {
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    pub(crate) async fn start_with(change: impl FnOnce(&mut OutboxConfig)) -> Self {
        let mariadb = MariadbServer::start().await;
        let readers = Readers::new(mariadb.url(), change).await;
        Self { mariadb, readers }
    }

    pub(crate) async fn database(&self) -> Database {
        let mut conn = Conn::new(Opts::from_url(&self.mariadb.url()).unwrap()).await.unwrap();
        conn.query_drop("SET time_zone = '+00:00'").await.unwrap();
        Database(conn)
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

// === impl Database ===

impl Database {
    pub(crate) async fn run(&mut self, statements: &str) {
        self.0.query_drop(statements).await.unwrap();
    }

    /// Creates a user with the rights of a compensator and a statement limit of one second; returns the URL.
    pub(crate) async fn limited_user(&mut self, url: &str) -> String {
        self.run(
            "CREATE USER 'delayq'@'%' WITH MAX_STATEMENT_TIME 1; \
             GRANT SELECT, INSERT, UPDATE, DELETE ON shop.* TO 'delayq'@'%'",
        )
        .await;
        url.replace("root@", "delayq@")
    }

    pub(crate) async fn number(&mut self, statement: &str) -> u64 {
        self.0.query_first(statement).await.unwrap().unwrap()
    }
}
