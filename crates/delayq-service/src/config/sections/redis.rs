//! `[redis]`: the Redis that keeps the messages.

use super::redis_node::RedisNodeConfig;
use super::sentinel::SentinelConfig;
use crate::config::{Faults, HumanDuration, Login, PemFiles, RedisUrl, Section, TlsOff};
use delayq::protocol::{NodeMap, NodeMapError};

crate::section! {
    /// `[redis]`: the address of the Redis, and deadlines of calls.
    pub struct RedisConfig {
        ..files: PemFiles,
        ..login: Login,
        /// `redis://`, `rediss://` (TLS), `unix://` or `redis+sentinel://`; default `redis://127.0.0.1:6379`. A user or a password
        /// in it stands in place of `username` or `password`.
        pub url: RedisUrl = "redis://127.0.0.1:6379".parse().expect("the default is a URL of a Redis"),
        /// Longest wait for a new connection, TLS and login included. 10 ms to 1 m; default 1 s.
        pub connect_timeout: HumanDuration = HumanDuration::from_secs(1),
        /// Maximum wait for the answer of a call; after that the call's fate is *unknown* and the caller decides. 10 ms to
        /// 1 m; default 2 s. If too short, a busy Redis makes producers spool.
        pub call_deadline: HumanDuration = HumanDuration::from_secs(2),
        /// Maximum wait for replicas or a disk to confirm a write if its topic requires confirmation; after that the
        /// write's fate is *unknown*. 1 ms to half of `call_deadline`; unset: half of `call_deadline`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub confirm_timeout: Option<HumanDuration> = None,
        /// Silence after which the system probes a connection. 1 s to 10 m; default 5 s. If a middlebox forgets idle connections
        /// sooner, the first call after a pause is slow.
        pub keepalive: HumanDuration = HumanDuration::from_secs(5),
        /// The sentinels that track the master.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub sentinel: Option<SentinelConfig> = None,
        /// Several Redises of one deployment; empty: the Redis of `url`, or of the sentinels.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub nodes: Vec<RedisNodeConfig> = Vec::new(),
    }
}

// === impl RedisConfig ===

impl RedisConfig {
    /// The address of the Redis: `url`, or the sentinels of `[redis.sentinel]`.
    #[must_use]
    pub fn place(&self) -> RedisUrl {
        let named = self.sentinel.as_ref().and_then(|sentinel| sentinel.url()?.parse().ok());
        named.unwrap_or_else(|| self.url.clone())
    }

    /// The same settings for one node.
    #[must_use]
    pub fn of_node(&self, node: &RedisNodeConfig) -> Self {
        let mut alone = Self { url: node.url.clone(), nodes: Vec::new(), ..self.clone() };
        alone.sentinel = alone.sentinel.filter(|_| node.url.has_sentinels());
        if !node.url.is_tls() {
            alone.files = PemFiles::default();
        }
        alone
    }

    fn tls_off(&self) -> TlsOff {
        let is_tls = self.place().is_tls() || self.nodes.iter().any(|node| node.url.is_tls());
        (!is_tls).then_some(("url", "`url` does not begin with rediss"))
    }

    /// The same settings with only this `url`: another Redis has other credentials.
    #[must_use]
    pub fn elsewhere(&self, url: &RedisUrl) -> Self {
        let Self { connect_timeout, call_deadline, confirm_timeout, keepalive, .. } = *self;
        let url = url.clone();
        Self { url, connect_timeout, call_deadline, confirm_timeout, keepalive, ..Self::default() }
    }
}

impl RedisConfig {
    fn validate_nodes(&self, at: &mut Faults) {
        if self.nodes.is_empty() {
            return;
        }
        if self.url != Self::default().url {
            at.contradiction(&["nodes", "url"], "`url` already names a single Redis; keep only one");
        }
        if self.login.password.is_some() && self.nodes.iter().any(|node| node.url.has_password()) {
            at.contradiction(&["password", "nodes"], "the `url` of a node has a password too; keep only one");
        }
        if let Err(error) = self.node_map() {
            at.refuse("nodes", error.to_string());
        }
    }

    fn node_map(&self) -> Result<NodeMap, NodeMapError> {
        NodeMap::new(self.nodes.iter().map(|node| node.settings(node.url.expose())).collect())
    }

    /// Number of shards with a node; `None`: a single Redis, or faulty nodes.
    pub(super) fn shards_of_nodes(&self) -> Option<usize> {
        if self.nodes.is_empty() { None } else { self.node_map().ok().map(|nodes| nodes.shards()) }
    }
}

impl Section for RedisConfig {
    fn validate(&self, at: &mut Faults) {
        let wait = HumanDuration::from_millis(10)..=HumanDuration::from_secs(60);
        at.range("connect_timeout", &self.connect_timeout, wait.clone());
        at.range("call_deadline", &self.call_deadline, wait);
        if let Some(timeout) = &self.confirm_timeout {
            let most = HumanDuration::from(*self.call_deadline / 2);
            at.range("confirm_timeout", timeout, HumanDuration::from_millis(1)..=most);
        }
        at.range("keepalive", &self.keepalive, HumanDuration::from_secs(1)..=HumanDuration::from_secs(600));
        self.login.validate(at);
        if self.login.password.is_some() && self.url.has_password() {
            at.contradiction(&["password", "url"], "`url` has a password too; keep only one");
        }
        self.files.validate(self.tls_off(), at);
        self.validate_nodes(at);
        let Some(sentinel) = &self.sentinel else { return };
        at.section("sentinel", sentinel);
        let by_sentinel = |url: &RedisUrl| url.has_sentinels();
        let is_named = by_sentinel(&self.url) || self.nodes.iter().any(|node| by_sentinel(&node.url));
        match (sentinel.nodes.is_empty(), self.url == Self::default().url && self.nodes.is_empty(), is_named)
        {
            (false, false, _) => {
                let both = "`url` has an address too; keep only one";
                at.contradiction(&["sentinel.nodes", "url"], both);
            }
            (true, _, false) => {
                let none = "without `nodes`, this key needs a `url` that begins with redis+sentinel:// or rediss+sentinel://";
                at.contradiction(&["sentinel", "url"], none);
            }
            _ => {}
        }
        let is_tls = |node: &RedisNodeConfig| node.url.has_sentinels() && node.url.is_tls();
        let tls = sentinel.tls.unwrap_or_else(|| self.place().is_tls() || self.nodes.iter().any(is_tls));
        let off = (!tls).then_some(("tls", "nothing turns it on: set `tls` to true"));
        at.within("sentinel", |at| sentinel.files.validate(off, at));
    }
}
