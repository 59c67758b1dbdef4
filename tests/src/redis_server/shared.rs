//! Limits on a shared Redis: a test may do nothing that other tests would notice.

use super::RedisServer;
use super::given::Database;
use super::given_cluster::GivenCluster;
use crate::deadline::SHORT;
use crate::environment::RedisShape;
use crate::sentinel::SERVICE;
use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;

/// Commands on a whole server, which would break other tests, or count their work.
const OF_THE_SERVER: [&str; 10] =
    ["ACL", "CLIENT", "CONFIG", "DEBUG", "FLUSHALL", "INFO", "MONITOR", "REPLICAOF", "SCRIPT", "SHUTDOWN"];

/// An empty Redis that no test breaks: a database of `DELAYQ_TEST_REDIS_URL`, which refuses commands that another test
/// would notice; or the given Redis Cluster, held by one test at a time; or else a private server. [`RedisServer`] has
/// the remaining operations.
#[derive(Debug)]
pub struct SharedRedis {
    port: u16,
    address: String,
    url: String,
    /// The TCP URL at [`Self::address`], even if clients use sentinels.
    direct_url: String,
    own_url: String,
    whose: Whose,
}

#[derive(Debug)]
enum Whose {
    /// The test, without restrictions.
    Test,
    /// All tests: a database of a given server.
    Database { _database: Database },
    /// All tests in turn.
    Cluster(GivenCluster),
    /// The test: no server was given.
    Started { _server: Box<RedisServer> },
}

// === impl SharedRedis ===

impl SharedRedis {
    /// Without restrictions.
    pub(super) fn of_test(port: u16, password: Option<&str>, socket: &str, shape: RedisShape) -> Self {
        let address = format!("127.0.0.1:{port}");
        let scheme = if shape == RedisShape::Cluster { "redis+cluster" } else { "redis" };
        let (login, pass) = match password {
            Some(password) => (format!(":{password}@"), format!("?pass={password}")),
            None => (String::new(), String::new()),
        };
        let url = format!("{scheme}://{login}{address}/");
        let own_url = format!("redis+unix://{socket}{pass}");
        Self { port, address, direct_url: url.clone(), url, own_url, whose: Whose::Test }
    }

    /// `None` for a cluster that this test already holds.
    pub(super) async fn of_given(url: &str) -> Option<Self> {
        let (address, url, own_url, whose) = match RedisShape::of(url) {
            RedisShape::Cluster => {
                let cluster = GivenCluster::take(url).await?;
                let address = url.rsplit(['@', '/', ',']).find(|node| !node.is_empty()).unwrap_or_default();
                (address.to_owned(), url.to_owned(), String::new(), Whose::Cluster(cluster))
            }
            RedisShape::Plain | RedisShape::Sentinel => {
                let database = Database::take(url).await;
                let (url, own_url) = (database.given().to_owned(), database.url().to_owned());
                (database.address().to_owned(), url, own_url, Whose::Database { _database: database })
            }
        };
        let port = address.rsplit(':').next().and_then(|port| port.parse().ok()).unwrap_or(6379);
        let direct_url = own_url.clone();
        Some(Self { port, address, url, direct_url, own_url, whose })
    }

    /// Makes clients ask this sentinel.
    pub(super) fn be_reached_by(&mut self, sentinel: &str) {
        let (login, _) = self.url.split_once(&self.address).expect("its URL has its address");
        let login = login.replace("redis://", "redis+sentinel://");
        self.url = format!("{login}{sentinel}/{SERVICE}");
    }

    /// The TCP address, `HOST:PORT`; constant over restarts.
    #[must_use]
    pub fn address(&self) -> String {
        self.address.clone()
    }

    /// The TCP port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The TCP URL, with the password.
    #[must_use]
    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// The TCP URL at another address, such as a [`crate::proxy::Proxy`]'s; of a cluster, with the same port. Panics
    /// for a given cluster, whose clients follow the nodes' own addresses.
    #[must_use]
    pub fn url_through(&self, address: &str) -> String {
        assert!(
            !matches!(self.whose, Whose::Cluster(_)),
            "no proxy leads to a given cluster: start the test's own by RedisServer::private"
        );
        self.direct_url.replace(&self.address, address)
    }

    pub(super) fn own_url(&self) -> &str {
        &self.own_url
    }

    /// A new connection of the harness to the key's server.
    pub async fn connect_to(&self, key: &str) -> MultiplexedConnection {
        match &self.whose {
            Whose::Cluster(cluster) => {
                let master = cluster.master_of(key).await.expect("the given cluster answers");
                try_connect(master).await.expect("its masters take connections")
            }
            _ => self.connect().await,
        }
    }

    /// A new connection of the harness. Panics for a given cluster, whose keys are on several servers.
    pub async fn connect(&self) -> MultiplexedConnection {
        let opened = try_connect(&self.own_url).await;
        opened.unwrap_or_else(|e| panic!("redis-server on port {} took no connection: {e}", self.port))
    }

    /// The server's clock, in µs since the epoch.
    pub async fn now_us(&self) -> u64 {
        let (seconds, micros): (u64, u64) = self.command(&["TIME"]).await;
        seconds * 1_000_000 + micros
    }

    /// The server's clock, in ms since the epoch.
    pub async fn now_ms(&self) -> u64 {
        self.now_us().await / 1000
    }

    /// Runs one command on a new connection, for operations on the server itself.
    pub async fn command<T: redis::FromRedisValue>(&self, words: &[&str]) -> T {
        let answer = self.try_command(words).await;
        answer.unwrap_or_else(|e| panic!("redis-server on port {} refused {words:?}: {e}", self.port))
    }

    /// As [`Self::command`], for a server that may not answer.
    ///
    /// # Errors
    /// The server refuses the connection or the command, or ends the connection.
    pub async fn try_command<T: redis::FromRedisValue>(&self, words: &[&str]) -> redis::RedisResult<T> {
        let (name, args) = words.split_first().expect("a command has a name");
        let is_given = matches!(self.whose, Whose::Database { .. } | Whose::Cluster(_));
        assert!(
            !(is_given && OF_THE_SERVER.contains(&name.to_uppercase().as_str())),
            "{name} on a Redis that others may use: start the test's own by RedisServer::private"
        );
        if let Whose::Cluster(cluster) = &self.whose {
            return cluster.run(words).await;
        }
        redis::cmd(name).arg(args).query_async(&mut try_connect(&self.own_url).await?).await
    }
}

impl From<RedisServer> for SharedRedis {
    fn from(server: RedisServer) -> Self {
        let SharedRedis { port, address, url, direct_url, own_url, .. } = &server.redis;
        let [address, url, direct_url, own_url] = [address, url, direct_url, own_url].map(String::clone);
        let port = *port;
        Self { port, address, url, direct_url, own_url, whose: Whose::Started { _server: Box::new(server) } }
    }
}

pub(super) async fn try_connect(url: &str) -> redis::RedisResult<MultiplexedConnection> {
    // A busy machine may need longer than the client's default of half a second to read a thousand entries.
    let patient =
        AsyncConnectionConfig::new().set_connection_timeout(Some(SHORT)).set_response_timeout(Some(SHORT));
    redis::Client::open(url)?.get_multiplexed_async_connection_with_config(&patient).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redis_server::RedisOptions;

    #[tokio::test]
    #[should_panic(expected = "CONFIG on a Redis that others may use")]
    async fn what_acts_on_a_whole_server_is_refused_where_others_may_use_it() {
        let server = RedisServer::private().await;
        let redis = SharedRedis::of_given(&server.url()).await.expect("it is no cluster");
        let () = redis.command(&["SET", "k", "v"]).await;
        let () = redis.command(&["CONFIG", "SET", "maxmemory", "1"]).await;
    }

    fn cluster_url(server: &RedisServer) -> String {
        format!("redis+cluster://{}", server.address())
    }

    #[tokio::test]
    async fn a_given_cluster_is_one_tests_at_a_time_and_empty_for_the_next() {
        let server = RedisServer::start_with(RedisOptions::default().cluster()).await;
        let redis = SharedRedis::of_given(&cluster_url(&server)).await.expect("nobody has it");
        let () = redis.command(&["SET", "{dq:7}:meta", "v"]).await;
        let mut connection = redis.connect_to("{dq:7}:meta").await;
        let found: String = redis::cmd("GET").arg("{dq:7}:meta").query_async(&mut connection).await.unwrap();
        assert_eq!((found.as_str(), redis.command::<u64>(&["DBSIZE"]).await), ("v", 1));
        assert!(SharedRedis::of_given(&redis.url()).await.is_none(), "this test has it already");
        drop(redis);
        assert_eq!(server.command::<u64>(&["DBSIZE"]).await, 0);
        let () = server.command(&["SET", "left", "by a killed test"]).await;
        let redis = SharedRedis::of_given(&cluster_url(&server)).await.expect("it was given back");
        assert_eq!(redis.command::<Vec<String>>(&["KEYS", "*"]).await, Vec::<String>::new());
    }

    #[tokio::test]
    #[should_panic(expected = "has keys that are not of tests")]
    async fn a_given_cluster_that_is_in_use_is_not_emptied() {
        let server = RedisServer::start_with(RedisOptions::default().cluster()).await;
        let () = server.command(&["SET", "orders", "of somebody"]).await;
        let _ = SharedRedis::of_given(&cluster_url(&server)).await;
    }

    #[tokio::test]
    async fn of_a_master_that_sentinels_name_each_test_gets_a_database() {
        let server = RedisServer::start_with(RedisOptions::default().shape(RedisShape::Sentinel)).await;
        let one = SharedRedis::of_given(&server.url()).await.expect("it is no cluster");
        let other = SharedRedis::of_given(&server.url()).await.expect("it is no cluster");
        let () = one.command(&["SET", "k", "v"]).await;
        assert_eq!((one.address(), other.command::<u64>(&["DBSIZE"]).await), (server.address(), 0));
        assert!(one.url() != other.url() && one.url().contains(&format!("/{SERVICE}?db=")), "{}", one.url());
        assert!(one.url_through("h:1").starts_with("redis://h:1/"), "{}", one.url_through("h:1"));
    }
}
