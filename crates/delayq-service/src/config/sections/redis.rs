//! `[redis]`: the Redis that keeps the messages.

use crate::config::{Faults, HumanDuration, RedisUrl, Secret, Section};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// `[redis]`: where messages are kept, and how long a call may take.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RedisConfig {
    /// `redis://`, `rediss://` (TLS) or `unix://`; default `redis://127.0.0.1:6379`.
    pub url: RedisUrl,
    /// ACL user; unset: the one in `url`, else Redis's default user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// Password; unset: the one in `url`, else none. A file is read again for each connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password: Option<Secret>,
    /// PEM file of the authority that signed the server's certificate; unset: those of the system. Needs `rediss://`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// Longest wait for a new connection, TLS and login included. 10 ms to 1 m; default 1 s.
    pub connect_timeout: HumanDuration,
    /// Longest wait for the answer of one call; after that its fate is *unknown* and the caller decides. 10 ms to 1 m;
    /// default 2 s. If it is too short, a busy Redis makes producers spool.
    pub call_deadline: HumanDuration,
    /// Silence after which the system probes a connection. 1 s to 10 m; default 5 s. If a middlebox forgets idle connections
    /// sooner, the first call after a pause is slow.
    pub keepalive: HumanDuration,
}

// === impl RedisConfig ===

impl Default for RedisConfig {
    fn default() -> Self {
        Self {
            url: "redis://127.0.0.1:6379".parse().expect("the default is a URL of a Redis"),
            username: None,
            password: None,
            ca: None,
            connect_timeout: HumanDuration::from_secs(1),
            call_deadline: HumanDuration::from_secs(2),
            keepalive: HumanDuration::from_secs(5),
        }
    }
}

impl Section for RedisConfig {
    fn validate(&self, at: &mut Faults) {
        let wait = HumanDuration::from_millis(10)..=HumanDuration::from_secs(60);
        at.range("connect_timeout", &self.connect_timeout, wait.clone());
        at.range("call_deadline", &self.call_deadline, wait);
        at.range("keepalive", &self.keepalive, HumanDuration::from_secs(1)..=HumanDuration::from_secs(600));
        at.secret("password", self.password.as_ref());
        if self.password.is_some() && self.url.has_password() {
            at.contradiction(&["password", "url"], "`url` holds a password too; keep one of the two");
        }
        if self.username.is_some() && self.password.is_none() {
            at.contradiction(&["username", "password"], "a user needs a `password`");
        }
        if self.url.is_tls() {
            at.pem("ca", self.ca.as_deref());
        } else if self.ca.is_some() {
            at.contradiction(&["ca", "url"], "`ca` is for TLS, but `url` does not begin with rediss://");
        }
    }
}
