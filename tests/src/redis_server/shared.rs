//! What a test may do to a Redis that others may use as well: nothing that they would notice.

use super::RedisServer;
use super::given::Database;
use crate::deadline::SHORT;
use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;

/// What acts on a whole server: it would break other tests, or count what they do.
const OF_THE_SERVER: [&str; 10] =
    ["ACL", "CLIENT", "CONFIG", "DEBUG", "FLUSHALL", "INFO", "MONITOR", "REPLICAOF", "SCRIPT", "SHUTDOWN"];

/// A Redis that is empty, and that no test breaks: a database of the one that `DELAYQ_TEST_REDIS_URL` gives, which refuses what
/// another test would notice, or else a server of this test's own. [`RedisServer`] has the rest.
#[derive(Debug)]
pub struct SharedRedis {
    port: u16,
    address: String,
    url: String,
    /// By which the harness connects.
    own_url: String,
    whose: Whose,
}

/// Whose the server is.
#[derive(Debug)]
enum Whose {
    /// The test's: all of it is at its disposal.
    Test,
    /// Everybody's: a database of a given one.
    Given { _database: Database },
    /// The test's, where none is given.
    Started { _server: Box<RedisServer> },
}

// === impl SharedRedis ===

impl SharedRedis {
    /// That of a [`RedisServer`], to which everything may be done.
    pub(super) fn of_test(port: u16, password: Option<&str>, socket: &str) -> Self {
        let address = format!("127.0.0.1:{port}");
        let (url, own_url) = match password {
            Some(password) => {
                (format!("redis://:{password}@{address}/"), format!("redis+unix://{socket}?pass={password}"))
            }
            None => (format!("redis://{address}/"), format!("redis+unix://{socket}")),
        };
        Self { port, address, url, own_url, whose: Whose::Test }
    }

    pub(super) fn of_started(server: RedisServer) -> Self {
        let SharedRedis { port, address, url, own_url, .. } = &server.redis;
        let [address, url, own_url] = [address, url, own_url].map(String::clone);
        Self { port: *port, address, url, own_url, whose: Whose::Started { _server: Box::new(server) } }
    }

    pub(super) async fn of_given(url: &str) -> Self {
        let database = Database::take(url).await;
        let (address, url) = (database.address().to_owned(), database.url().to_owned());
        let port = address.rsplit(':').next().and_then(|port| port.parse().ok()).unwrap_or(6379);
        Self { port, address, own_url: url.clone(), url, whose: Whose::Given { _database: database } }
    }

    /// Its TCP address, `HOST:PORT`; the same after a restart.
    #[must_use]
    pub fn address(&self) -> String {
        self.address.clone()
    }

    /// Its TCP port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL by TCP, with the password.
    #[must_use]
    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// The URL by TCP at another address, such as a [`crate::proxy::Proxy`]'s in front of it.
    #[must_use]
    pub fn url_through(&self, address: &str) -> String {
        self.url.replace(&self.address, address)
    }

    /// The URL by which the harness connects.
    pub(super) fn own_url(&self) -> &str {
        &self.own_url
    }

    /// A new connection of the harness.
    ///
    /// # Panics
    /// If the server does not accept it.
    pub async fn connect(&self) -> MultiplexedConnection {
        let opened = try_connect(&self.own_url).await;
        opened.unwrap_or_else(|e| panic!("redis-server on port {} took no connection: {e}", self.port))
    }

    /// Its clock, in µs since the epoch.
    ///
    /// # Panics
    /// If it does not answer.
    pub async fn now_us(&self) -> u64 {
        let (seconds, micros): (u64, u64) = self.command(&["TIME"]).await;
        seconds * 1_000_000 + micros
    }

    /// Its clock, in ms since the epoch.
    ///
    /// # Panics
    /// If it does not answer.
    pub async fn now_ms(&self) -> u64 {
        self.now_us().await / 1000
    }

    /// Runs one command on a new connection, for what a test does to the server.
    ///
    /// # Panics
    /// If the server refuses it, with the server's message; as [`Self::try_command`].
    pub async fn command<T: redis::FromRedisValue>(&self, words: &[&str]) -> T {
        let answer = self.try_command(words).await;
        answer.unwrap_or_else(|e| panic!("redis-server on port {} refused {words:?}: {e}", self.port))
    }

    /// As [`Self::command`], for a server that may not answer.
    ///
    /// # Errors
    /// It refuses the connection or the command, or ends the connection.
    ///
    /// # Panics
    /// If the command acts on the whole server, and others may use it.
    pub async fn try_command<T: redis::FromRedisValue>(&self, words: &[&str]) -> redis::RedisResult<T> {
        let (name, args) = words.split_first().expect("a command has a name");
        let is_given = matches!(self.whose, Whose::Given { .. });
        assert!(
            !(is_given && OF_THE_SERVER.contains(&name.to_uppercase().as_str())),
            "{name} on a Redis that others may use: start the test's own by RedisServer::private"
        );
        redis::cmd(name).arg(args).query_async(&mut try_connect(&self.own_url).await?).await
    }
}

pub(super) async fn try_connect(url: &str) -> redis::RedisResult<MultiplexedConnection> {
    // A busy machine may take longer than the client's own half second to read a thousand entries.
    let patient =
        AsyncConnectionConfig::new().set_connection_timeout(Some(SHORT)).set_response_timeout(Some(SHORT));
    redis::Client::open(url)?.get_multiplexed_async_connection_with_config(&patient).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    #[should_panic(expected = "CONFIG on a Redis that others may use")]
    async fn what_acts_on_a_whole_server_is_refused_where_others_may_use_it() {
        let server = RedisServer::private().await;
        let redis = SharedRedis::of_given(&server.url()).await;
        let () = redis.command(&["SET", "k", "v"]).await;
        let () = redis.command(&["CONFIG", "SET", "maxmemory", "1"]).await;
    }
}
