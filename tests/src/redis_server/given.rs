//! A database of a running Redis, or of the master behind sentinels: empty, and reserved for one test at a time.
//!
//! Database 0 records the reserved databases. All databases share scripts and channels, so tests must tolerate loaded
//! scripts and superfluous wake-ups.

use super::shared::try_connect;
use crate::deadline::{LONG, wait_for};
use crate::environment::RedisShape;
use crate::sentinel::master_url;
use crate::shared::seed;
use redis::aio::MultiplexedConnection;
use redis::{Client, IntoConnectionInfo as _};

/// Time until a killed test's database is free again.
const TAKEN_MS: u64 = 30 * 60 * 1000;

#[derive(Debug)]
pub(super) struct Database {
    given: String,
    url: String,
    server: String,
    number: u32,
}

// === impl Database ===

impl Database {
    pub(super) async fn take(url: &str) -> Self {
        let is_watched = RedisShape::of(url) == RedisShape::Sentinel;
        let server = if is_watched { master_url(url).await } else { url.trim_end_matches('/').to_owned() };
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
        let own = format!("{server}/{number}");
        let given = if is_watched { format!("{url}?db={number}") } else { own.clone() };
        let taken = Self { given, url: own, server, number };
        let mut own = connect(&taken.url).await;
        let () = redis::cmd("FLUSHDB").query_async(&mut own).await.expect("FLUSHDB");
        taken
    }

    pub(super) fn given(&self) -> &str {
        &self.given
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    pub(super) fn address(&self) -> &str {
        self.server.rsplit(['@', '/']).next().unwrap_or_default()
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
        // The next user empties the database as well.
        let _ = give_back();
    }
}

async fn connect(url: &str) -> MultiplexedConnection {
    let opened = try_connect(url).await;
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
