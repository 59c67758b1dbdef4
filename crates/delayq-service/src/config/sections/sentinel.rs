//! `[redis.sentinel]`: the sentinels that track the master.

use crate::config::{Faults, HostPort, Login, PemFiles, Section};
use delayq::protocol::SentinelUrl;

crate::section! {
    /// `[redis.sentinel]`: addresses, login and certificates of the sentinels. Those of the Redis itself are never sent to
    /// sentinels, apart from its PEM files where these are unset.
    pub struct SentinelConfig {
        ..files: PemFiles,
        ..login: Login,
        /// The sentinels; empty: the sentinels in `redis.url`.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub nodes: Vec<HostPort> = Vec::new(),
        /// The sentinels' name for the master; needed with `nodes`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub service: Option<String> = None,
        /// Whether the sentinels use TLS; unset: as in `redis.url`. With `nodes`, applies to the Redis too.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub tls: Option<bool> = None,
    }
}

// === impl SentinelConfig ===

impl SentinelConfig {
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
        self.login.validate(at);
    }
}
