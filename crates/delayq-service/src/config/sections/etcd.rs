//! `[etcd]`: the etcd that tells the timers of each other.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use delayq_cluster::{ClusterConfig, EtcdAccess, KeyPrefix};
use serde::{Deserialize, Serialize};

use crate::config::{Faults, HumanDuration, Secret, Section};

/// `[etcd]`: membership and the plan of shards. Messages never touch it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EtcdConfig {
    /// Whether there is an etcd; default true. Without one a single timer owns every shard.
    pub enabled: bool,
    /// Addresses of the members, `http://host:port` or `https://host:port`, all of one kind; default one on this host.
    pub endpoints: Vec<String>,
    /// User, where etcd asks for one; needs `password`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// Password of `username`. Read anew for each login.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password: Option<Secret>,
    /// Life of this process's lease without a word from it, in whole seconds. 2 s to 10 m; default 5 s. It bounds how
    /// long the shards of a killed timer stand still; etcd may grant more than was asked.
    pub lease_ttl: HumanDuration,
    /// Longest wait for one answer. 100 ms to 1 m and below `lease_ttl`; default 1 s.
    pub call_deadline: HumanDuration,
    /// First part of every key: `/` and 1 to 64 of `A-Z a-z 0-9 . _ -`; default `/delayq`. The namespace of the
    /// deployment follows it.
    pub prefix: KeyPrefix,
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

    fn validate_endpoints(&self, at: &mut Faults) {
        if self.enabled && self.endpoints.is_empty() {
            at.contradiction(&["endpoints", "enabled"], "no endpoint; name one or set `enabled = false`");
        }
        if EtcdAccess::mixes_tls(&self.endpoints) {
            at.refuse(
                "endpoints",
                "some begin with http://, others with https://; a password would go to both",
            );
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
            lease_ttl: ClusterConfig::LEASE_TTL.into(),
            call_deadline: EtcdAccess::REQUEST_DEADLINE.into(),
            prefix: KeyPrefix::default(),
            tls: TlsConfig::default(),
        }
    }
}

impl Section for EtcdConfig {
    fn validate(&self, at: &mut Faults) {
        self.validate_endpoints(at);
        at.range("lease_ttl", &self.lease_ttl, human(ClusterConfig::LEASE_TTLS));
        at.range("call_deadline", &self.call_deadline, human(EtcdAccess::REQUEST_DEADLINES));
        if self.lease_ttl.subsec_nanos() != 0 {
            at.refuse("lease_ttl", "expected whole seconds; etcd knows no others");
        }
        if self.call_deadline >= self.lease_ttl {
            at.contradiction(
                &["call_deadline", "lease_ttl"],
                "one lost answer would cost the lease; stay below `lease_ttl`",
            );
        }
        at.secret("password", self.password.as_ref());
        if self.username.is_some() != self.password.is_some() {
            let written =
                if self.username.is_some() { ["username", "password"] } else { ["password", "username"] };
            at.contradiction(&written, "`username` and `password` belong together");
        }
        at.section("tls", &self.tls);
        let encrypted = |endpoint: &String| endpoint.starts_with("https://");
        if self.endpoints.iter().any(encrypted) {
            for (key, file) in [("ca", &self.tls.ca), ("cert", &self.tls.cert), ("key", &self.tls.key)] {
                at.pem(&format!("tls.{key}"), file.as_deref());
            }
        } else if self.tls != TlsConfig::default() {
            at.contradiction(
                &["tls", "endpoints"],
                "certificates are given, but no endpoint begins with https://",
            );
        }
    }
}

fn human(range: RangeInclusive<Duration>) -> RangeInclusive<HumanDuration> {
    let (least, most) = range.into_inner();
    least.into()..=most.into()
}

impl Section for TlsConfig {
    fn validate(&self, at: &mut Faults) {
        if self.cert.is_some() != self.key.is_some() {
            let written = if self.cert.is_some() { ["cert", "key"] } else { ["key", "cert"] };
            at.contradiction(&written, "`cert` and `key` belong together");
        }
    }
}
