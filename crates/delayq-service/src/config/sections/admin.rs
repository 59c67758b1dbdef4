//! `[admin]`: the endpoint for metrics and probes.

use crate::config::{HostPort, Listen, Section};
use serde::{Deserialize, Serialize};

/// `[admin]`: `/metrics`, `/livez`, `/readyz` and `/version`, without login or TLS: keep it on a private address.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AdminConfig {
    /// Address; `""`: no endpoint; port 0: a free one, named in the log. Default `127.0.0.1:9440`. Processes on one
    /// host need a port each: set `DELAYQ__ADMIN__LISTEN` for them.
    pub listen: Listen,
}

// === impl AdminConfig ===

impl Default for AdminConfig {
    fn default() -> Self {
        Self { listen: Listen::At(HostPort::new("127.0.0.1", 9440)) }
    }
}

impl Section for AdminConfig {}
