//! A master with its replicas and three sentinels, each of which a test can break.

use crate::certs::Authority;
use crate::deadline::{LONG, wait_for, wait_until};
use crate::redis_server::{RedisOptions, RedisServer};
use crate::sentinel::{SERVICE, Sentinel, Watch};
use redis::RedisResult;
use std::collections::HashMap;
use std::time::Duration;

/// Silence after which a sentinel considers the master down.
const DOWN_AFTER: Duration = Duration::from_millis(1500);

/// Limit for the sentinels' work: a sentinel that a busy machine delays for two seconds does nothing for thirty (TILT).
const SENTINELS: Duration = Duration::from_secs(300);

/// Redises, usually three, including the master, and three sentinels with a quorum of two.
#[derive(Debug)]
pub struct SentinelGroup {
    /// The Redises. The first starts as the master.
    pub redises: Vec<RedisServer>,
    /// The sentinels.
    pub sentinels: Vec<Sentinel>,
}

// === impl SentinelGroup ===

impl SentinelGroup {
    /// Starts all servers, and waits until each knows the others.
    pub async fn start() -> Self {
        Self::start_with("").await
    }

    /// As [`Self::start`], with these lines in the sentinels' configuration.
    pub async fn start_with(lines: &str) -> Self {
        // Otherwise a replica waits five seconds for others before receiving the data.
        let options = RedisOptions::default().set("repl-diskless-sync-delay", "0");
        Self::around(RedisServer::start_with(options).await, lines).await
    }

    /// As [`Self::start`], with TLS only: Redises and sentinels present certificates of this authority to each other
    /// and to clients (see [`Self::tls_url`]), and require client certificates.
    pub async fn with_tls(authority: &Authority) -> Self {
        let options = RedisOptions::default().set("repl-diskless-sync-delay", "0");
        let options = options.tls(&authority.server(), authority, true).tls_between();
        Self::around(RedisServer::start_with(options).await, "").await
    }

    /// Gives a Redis in use two replicas and three sentinels, with these lines in the sentinels' configuration.
    pub async fn around(master: RedisServer, lines: &str) -> Self {
        Self::with_replicas(master, 2, lines).await
    }

    /// As [`Self::around`], with `count` replicas.
    pub async fn with_replicas(master: RedisServer, count: usize, lines: &str) -> Self {
        let of_master = master.options().clone().replica_of(&master);
        let mut replicas = Vec::new();
        for _ in 0..count {
            replicas.push(RedisServer::start_with(of_master.clone()).await);
        }
        let redises: Vec<RedisServer> = [master].into_iter().chain(replicas).collect();
        let follow = async || redises[0].followers().await == redises.len() - 1;
        wait_until("the replicas to follow", LONG, follow).await;
        let (port, tls) = (redises[0].announced_port(), redises[0].options().tls_lines());
        let watch = Watch { master: port, quorum: 2, down_after: DOWN_AFTER, lines, tls: &tls };
        let sentinels = (0..3).map(|_| Sentinel::start(&watch)).collect();
        let group = Self { redises, sentinels };
        group.all_known().await;
        group
    }

    /// The URL with all sentinels.
    #[must_use]
    pub fn url(&self) -> String {
        let nodes: Vec<String> = self.sentinels.iter().map(Sentinel::address).collect();
        format!("redis+sentinel://{}/{SERVICE}", nodes.join(","))
    }

    /// The TLS URL with all sentinels.
    #[must_use]
    pub fn tls_url(&self) -> String {
        let nodes: Vec<String> = self.sentinels.iter().map(Sentinel::tls_address).collect();
        format!("rediss+sentinel://{}/{SERVICE}", nodes.join(","))
    }

    /// The master, according to this sentinel; `None` without an answer.
    pub async fn master_by(&self, sentinel: usize) -> Option<usize> {
        let words = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE];
        let (_, port): (String, u16) = self.sentinels[sentinel].try_command(&words).await.ok()?;
        self.redises.iter().position(|redis| redis.announced_port() == port)
    }

    /// The Redis that all sentinels call the master, once they agree on an actual master.
    pub async fn master(&self) -> usize {
        wait_for("the sentinels to agree on a master", LONG, async || {
            let first = self.master_by(0).await?;
            for sentinel in 1..self.sentinels.len() {
                self.master_by(sentinel).await.filter(|master| *master == first)?;
            }
            (self.redises[first].field("role").await == "master").then_some(first)
        })
        .await
    }

    /// Waits until a sentinel names another actual master; returns the index.
    pub async fn master_after(&self, former: usize) -> usize {
        wait_for("another master", SENTINELS, async || {
            for sentinel in 0..self.sentinels.len() {
                if let Some(master) = self.master_by(sentinel).await.filter(|master| *master != former)
                    && self.redises[master].field("role").await == "master"
                {
                    return Some(master);
                }
            }
            None
        })
        .await
    }

    /// Waits until a former master is a replica, or dead. Until then, writes to the former master are
    /// taken and lost.
    pub async fn demoted(&self, former: usize) {
        wait_until("the former master to be demoted", SENTINELS, async || {
            let info: RedisResult<String> = self.redises[former].try_command(&["INFO", "replication"]).await;
            info.map_or(true, |info| !info.contains("role:master"))
        })
        .await;
    }

    /// Waits until every other Redis follows this master and has its data; a failure shows every server's and
    /// sentinel's view.
    pub async fn followed(&self, master: usize) {
        let follow = async || self.redises[master].followers().await == self.redises.len() - 1;
        let waiting = wait_until("every other Redis to follow", 2 * SENTINELS, follow);
        if tokio::time::timeout(SENTINELS, waiting).await.is_err() {
            panic!("waited {SENTINELS:?} in vain for every other Redis to follow:\n{}", self.say().await);
        }
    }

    /// Waits until the sentinels know all servers, and every other Redis has the master's data. (The sentinels count a
    /// former master as a replica before the first copy: a failover may promote older data.)
    pub async fn all_follow(&self) {
        self.all_known().await;
        self.followed(self.master().await).await;
    }

    async fn say(&self) -> String {
        let mut text = String::new();
        for (n, redis) in self.redises.iter().enumerate() {
            let info: String = redis.try_command(&["INFO", "replication"]).await.unwrap_or_default();
            text.push_str(&format!("redis {n} at {}:\n{info}\n", redis.address()));
        }
        for sentinel in &self.sentinels {
            for words in [&["INFO", "sentinel"][..], &["SENTINEL", "REPLICAS", SERVICE]] {
                let said: RedisResult<redis::Value> = sentinel.try_command(words).await;
                text.push_str(&format!("sentinel {}: {said:?}\n", sentinel.address()));
            }
        }
        text
    }

    /// Waits until every running sentinel knows two other sentinels, and all replicas of its master.
    pub async fn all_known(&self) {
        let replicas = (self.redises.len() - 1).to_string();
        wait_until("the sentinels to know each other and the replicas", LONG, async || {
            for sentinel in &self.sentinels {
                let known: RedisResult<HashMap<String, String>> =
                    sentinel.try_command(&["SENTINEL", "MASTER", SERVICE]).await;
                let Ok(known) = known else { return false };
                let field = |name: &str| known.get(name).map_or("", String::as_str);
                let told = (field("num-slaves"), field("num-other-sentinels"), field("flags"));
                if told != (replicas.as_str(), "2", "master") {
                    return false;
                }
            }
            true
        })
        .await;
    }
}
