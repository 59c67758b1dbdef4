//! A database of a Redis that is already running: empty, and reserved for one test at a time.
//!
//! Database 0 records which databases are taken. All databases share scripts and channels, so tests must tolerate
//! loaded scripts and superfluous wake-ups.

use crate::deadline::{LONG, wait_for};
use crate::shared::seed;
use redis::aio::MultiplexedConnection;
use redis::{Client, IntoConnectionInfo as _};

/// How long a database stays taken by a test that was killed.
const TAKEN_MS: u64 = 30 * 60 * 1000;

/// What no test may do to a shared server: it would break other tests, or count what they do.
const OF_THE_SERVER: [&str; 10] =
    ["ACL", "CLIENT", "CONFIG", "DEBUG", "FLUSHALL", "INFO", "MONITOR", "REPLICAOF", "SCRIPT", "SHUTDOWN"];

/// One database. Dropping it empties it and gives it back.
#[derive(Debug)]
pub(super) struct Database {
    url: String,
    /// Without a database.
    server: String,
    number: u32,
}

// === impl Database ===

impl Database {
    /// Takes a free one.
    pub(super) async fn take(url: &str) -> Self {
        let server = url.trim_end_matches('/').to_owned();
        let info =
            server.as_str().into_connection_info().expect("DELAYQ_TEST_REDIS_URL is the URL of a Redis");
        assert!(
            info.redis_settings().db() == 0,
            "DELAYQ_TEST_REDIS_URL names a database; tests take their own"
        );
        let mut first = connect(&server).await;
        let (_, count): (String, u32) = redis::cmd("CONFIG")
            .arg("GET")
            .arg("databases")
            .query_async(&mut first)
            .await
            .expect("CONFIG GET");
        assert!(count > 1, "the given Redis has one database only: start it with --databases 1024");
        let number = wait_for("a database that nobody has", LONG, || free(first.clone(), count)).await;
        let taken = Self { url: format!("{server}/{number}"), server, number };
        let mut own = connect(&taken.url).await;
        let () = redis::cmd("FLUSHDB").query_async(&mut own).await.expect("FLUSHDB");
        taken
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// `host:port`.
    pub(super) fn address(&self) -> &str {
        self.server.rsplit(['@', '/']).next().unwrap_or_default()
    }

    /// Refuses operations on the whole server.
    pub(super) fn check(&self, command: &str) {
        let whole = OF_THE_SERVER.contains(&command.to_uppercase().as_str());
        assert!(!whole, "{command} on a given Redis: start one of the test's own by RedisServer::private");
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let give_back = || {
            let mut own = Client::open(self.url.as_str())?.get_connection()?;
            redis::cmd("FLUSHDB").arg("ASYNC").exec(&mut own)?;
            let mut first = Client::open(self.server.as_str())?.get_connection()?;
            redis::cmd("UNLINK").arg(mark(self.number)).exec(&mut first)
        };
        // The next user empties it as well.
        let _ = give_back();
    }
}

async fn connect(url: &str) -> MultiplexedConnection {
    let opened = super::try_connect(url).await;
    opened.unwrap_or_else(|e| panic!("the given Redis took no connection: {e}"))
}

async fn free(mut first: MultiplexedConnection, count: u32) -> Option<u32> {
    let from = seed();
    for n in 0..count - 1 {
        let number = 1 + from.wrapping_add(n) % (count - 1);
        let mut set = redis::cmd("SET");
        set.arg(mark(number)).arg(std::process::id()).arg("NX").arg("PX").arg(TAKEN_MS);
        let taken: Option<String> = set.query_async(&mut first).await.expect("SET");
        if taken.is_some() {
            return Some(number);
        }
    }
    None
}

fn mark(number: u32) -> String {
    format!("delayq-tests:database:{number}")
}
