//! `[admin]`: the endpoint for metrics and probes.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use crate::config::{ByteSize, Faults, HostPort, HumanDuration, Listen, Section};

/// `[admin]`: `/metrics`, `/livez`, `/readyz` and `/version`, without login or TLS: keep it on a private address.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AdminConfig {
    /// Address; `""`: no endpoint; port 0: a free one, named in the log. Default `127.0.0.1:9440`. Processes on one
    /// host need a port each: set `DELAYQ__ADMIN__LISTEN` for them.
    pub listen: Listen,
    /// Connections at a time; for a further one the oldest of the address that holds the most is closed, and counted. 1 to
    /// 4096; default 64.
    pub max_connections: NonZeroU32,
    /// Longest wait for the head of a request, from the connection or the last answer on. 10 ms to 5 m; default 10 s.
    /// A scraper with a longer interval connects anew each time.
    pub header_timeout: HumanDuration,
    /// Longest wait for the body of a request, after its head. 10 ms to 5 m; default 5 s.
    pub body_timeout: HumanDuration,
    /// Longest time in which not one byte moves either way, a reader that stopped included. 10 ms to 1 h; default 30 s.
    pub idle_timeout: HumanDuration,
    /// Largest body of a request. 0B to 1MiB; default 64KiB.
    pub max_body: ByteSize,
}

// === impl AdminConfig ===

impl AdminConfig {
    /// The default port of `listen`.
    pub const PORT: u16 = 9440;
    /// The default of `max_connections`.
    pub const MAX_CONNECTIONS: NonZeroU32 = NonZeroU32::new(64).expect("64 is not zero");
    /// The default of `header_timeout`.
    pub const HEADER_TIMEOUT: HumanDuration = HumanDuration::from_secs(10);
    /// The default of `body_timeout`.
    pub const BODY_TIMEOUT: HumanDuration = HumanDuration::from_secs(5);
    /// The default of `idle_timeout`.
    pub const IDLE_TIMEOUT: HumanDuration = HumanDuration::from_secs(30);
    /// The default of `max_body`.
    pub const MAX_BODY: ByteSize = ByteSize::from_kib(64);
}

impl Default for AdminConfig {
    fn default() -> Self {
        Self {
            listen: Listen::At(HostPort::new("127.0.0.1", Self::PORT)),
            max_connections: Self::MAX_CONNECTIONS,
            header_timeout: Self::HEADER_TIMEOUT,
            body_timeout: Self::BODY_TIMEOUT,
            idle_timeout: Self::IDLE_TIMEOUT,
            max_body: Self::MAX_BODY,
        }
    }
}

impl Section for AdminConfig {
    fn validate(&self, at: &mut Faults) {
        let wait = HumanDuration::from_millis(10)..=HumanDuration::from_secs(300);
        at.range("max_connections", &self.max_connections.get(), 1..=4096);
        at.range("header_timeout", &self.header_timeout, wait.clone());
        at.range("body_timeout", &self.body_timeout, wait);
        at.range(
            "idle_timeout",
            &self.idle_timeout,
            HumanDuration::from_millis(10)..=HumanDuration::from_secs(3600),
        );
        at.range("max_body", &self.max_body, ByteSize::from_bytes(0)..=ByteSize::from_mib(1));
    }
}
