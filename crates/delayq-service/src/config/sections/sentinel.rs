//! `[redis.sentinel]`: the sentinels that track the master.

use crate::config::{Faults, HostPort, PemFiles, Secret, Section};
use delayq::protocol::SentinelUrl;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// `[redis.sentinel]`: addresses and login of the sentinels. User and password of the Redis itself are never sent to
/// sentinels.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SentinelConfig {
    /// The sentinels; empty: the sentinels in `redis.url`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<HostPort>,
    /// The sentinels' name for the master; needed with `nodes`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// ACL user of the sentinels; unset: their default user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// Password of the sentinels; unset: none. A file is read again for each connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password: Option<Secret>,
    /// Whether the sentinels use TLS; unset: as in `redis.url`. With `nodes`, applies to the Redis too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<bool>,
    /// PEM file of the authority that signed the sentinels' certificates; unset: as for the Redis.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// PEM file of the client's certificate, if the sentinels require one; needs `key`; unset: as for the Redis.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert: Option<PathBuf>,
    /// PEM file of the private key of `cert`, without a passphrase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
}

// === impl SentinelConfig ===

impl SentinelConfig {
    /// The PEM files of the section.
    #[must_use]
    pub fn pem_files(&self) -> PemFiles<'_> {
        PemFiles { ca: self.ca.as_deref(), cert: self.cert.as_deref(), key: self.key.as_deref(), off: None }
    }

    /// The URL equivalent to `nodes`, `service` and `tls`; `None` without nodes.
    pub(super) fn url(&self) -> Option<String> {
        let nodes: Vec<String> = self.nodes.iter().map(HostPort::to_string).collect();
        let scheme = if self.tls == Some(true) { "rediss" } else { "redis" };
        let service = self.service.as_deref().unwrap_or_default();
        (!nodes.is_empty()).then(|| format!("{scheme}+sentinel://{}/{service}", nodes.join(",")))
    }
}

impl Section for SentinelConfig {
    fn validate(&self, at: &mut Faults) {
        at.together(("nodes", !self.nodes.is_empty()), ("service", self.service.is_some()));
        if let (Some(url), Some(_)) = (self.url(), &self.service)
            && let Err(why) = url.parse::<SentinelUrl>()
        {
            at.contradiction(&["nodes", "service"], why);
        }
        at.secret("password", self.password.as_ref());
        if self.username.is_some() && self.password.is_none() {
            at.contradiction(&["username", "password"], "a user needs a `password`");
        }
        self.pem_files().validate(at);
    }
}
