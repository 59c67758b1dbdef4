//! `[etcd]`: the etcd that tells the timers of each other.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::config::{Faults, HumanDuration, Secret, Section};

/// `[etcd]`: membership and the plan of shards. Messages never touch it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EtcdConfig {
    /// Whether there is an etcd; default true. Without one a single timer owns every shard.
    pub enabled: bool,
    /// Addresses of the members, `http://host:port` or `https://host:port`; default one on this host.
    pub endpoints: Vec<String>,
    /// User, where etcd asks for one; needs `password`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// Password of `username`. Read anew for each login.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password: Option<Secret>,
    /// Life of this process's lease without a word from it, in whole seconds. 2 s to 5 m; default 5 s. It bounds how
    /// long the shards of a killed timer stand still; etcd may grant more than was asked.
    pub lease_ttl: HumanDuration,
    /// Longest wait for one answer. 10 ms to 1 m and below `lease_ttl`; default 1 s.
    pub call_deadline: HumanDuration,
    /// First part of every key; begins with `/`, does not end with it; default `/delayq`. The namespace of the
    /// deployment follows it.
    pub prefix: String,
    /// `[etcd.tls]`: certificates for `https` endpoints.
    pub tls: TlsConfig,
}

/// Certificates of a TLS connection, as PEM files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TlsConfig {
    /// The authority that signed the server's certificate; unset: those of the system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// The certificate of this client; needs `key`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert: Option<PathBuf>,
    /// The private key of `cert`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
}

// === impl EtcdConfig ===

impl EtcdConfig {
    /// The default of `endpoints`.
    pub const ENDPOINT: &str = "http://127.0.0.1:2379";
    /// The default of `lease_ttl`.
    pub const LEASE_TTL: HumanDuration = HumanDuration::from_secs(5);
    /// The default of `call_deadline`.
    pub const CALL_DEADLINE: HumanDuration = HumanDuration::from_secs(1);
    /// The default of `prefix`.
    pub const PREFIX: &str = "/delayq";

    fn validate_endpoints(&self, at: &mut Faults) {
        if self.enabled && self.endpoints.is_empty() {
            at.contradiction(&["endpoints", "enabled"], "no endpoint; name one or set `enabled = false`");
        }
        for (index, endpoint) in self.endpoints.iter().enumerate() {
            let host = endpoint.strip_prefix("http://").or_else(|| endpoint.strip_prefix("https://"));
            let sound = host.is_some_and(|host| !host.is_empty() && !host.contains(['/', '@', ' ', ',']));
            if !sound {
                at.refuse(
                    &format!("endpoints[{index}]"),
                    "expected \"http://host:port\" or \"https://host:port\"",
                );
            }
        }
    }
}

impl Default for EtcdConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            endpoints: vec![Self::ENDPOINT.to_owned()],
            username: None,
            password: None,
            lease_ttl: Self::LEASE_TTL,
            call_deadline: Self::CALL_DEADLINE,
            prefix: Self::PREFIX.to_owned(),
            tls: TlsConfig::default(),
        }
    }
}

impl Section for EtcdConfig {
    fn validate(&self, at: &mut Faults) {
        self.validate_endpoints(at);
        at.range("lease_ttl", &self.lease_ttl, HumanDuration::from_secs(2)..=HumanDuration::from_secs(300));
        at.range(
            "call_deadline",
            &self.call_deadline,
            HumanDuration::from_millis(10)..=HumanDuration::from_secs(60),
        );
        if self.lease_ttl.subsec_nanos() != 0 {
            at.refuse("lease_ttl", "expected whole seconds; etcd knows no others");
        }
        if self.call_deadline >= self.lease_ttl {
            at.contradiction(
                &["call_deadline", "lease_ttl"],
                "one lost answer would cost the lease; stay below `lease_ttl`",
            );
        }
        if !self.prefix.starts_with('/') || self.prefix.ends_with('/') {
            at.refuse("prefix", "expected a path that begins with / and does not end with it");
        }
        at.secret("password", self.password.as_ref());
        if self.username.is_some() != self.password.is_some() {
            let written =
                if self.username.is_some() { ["username", "password"] } else { ["password", "username"] };
            at.contradiction(&written, "`username` and `password` belong together");
        }
        at.section("tls", &self.tls);
        let encrypted = |endpoint: &String| endpoint.starts_with("https://");
        if self.tls != TlsConfig::default() && !self.endpoints.iter().any(encrypted) {
            at.contradiction(
                &["tls", "endpoints"],
                "certificates are given, but no endpoint begins with https://",
            );
        }
    }
}

impl Section for TlsConfig {
    fn validate(&self, at: &mut Faults) {
        if self.cert.is_some() != self.key.is_some() {
            let written = if self.cert.is_some() { ["cert", "key"] } else { ["key", "cert"] };
            at.contradiction(&written, "`cert` and `key` belong together");
        }
    }
}
