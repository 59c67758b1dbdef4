//! `[admin]`: the endpoint for metrics and probes.

use crate::config::{Faults, HostPort, Listen, Section};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// `[admin]`: `/metrics`, `/livez`, `/readyz` and `/version`, without login or TLS: keep it on a private address.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AdminConfig {
    /// Address; `""`: no endpoint; port 0: a free port, named in the log. Default `127.0.0.1:9440`. Each process on a
    /// host needs its own port: set `DELAYQ__ADMIN__LISTEN`.
    pub listen: Listen,
    /// Name or IP address, without a port, where other hosts reach the endpoint: a member of a fleet registers this
    /// address in etcd for `delayq top` and `delayq bundle`. Default `""`: the address of `listen`; if that is a
    /// wildcard, the source address of etcd connections, or else the host's name.
    pub advertise: String,
}

// === impl AdminConfig ===

impl Default for AdminConfig {
    fn default() -> Self {
        Self { listen: Listen::At(HostPort::new("127.0.0.1", 9440)), advertise: String::new() }
    }
}

impl Section for AdminConfig {
    fn validate(&self, at: &mut Faults) {
        if !self.advertise.is_empty() && !is_host(&self.advertise) {
            at.refuse(
                "advertise",
                "expected a host name or IP address that other hosts can reach, without a port",
            );
        }
    }
}

fn is_host(text: &str) -> bool {
    match text.parse::<IpAddr>() {
        Ok(address) => !address.is_unspecified(),
        Err(_) => format!("{text}:1").parse::<HostPort>().is_ok_and(|address| address.host() == text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_can_reach_is_not_advertised() {
        for text in ["10.0.0.7", "fd00::7", "timer-1", "timer-1.delayq.svc"] {
            assert!(is_host(text), "{text}");
        }
        for text in ["0.0.0.0", "::", "timer-1:9440", "[fd00::7]", "http://timer-1", "a b", "user@h"] {
            assert!(!is_host(text), "{text}");
        }
    }
}
