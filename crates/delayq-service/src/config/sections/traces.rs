//! `[traces]`: the collector that spans are sent to.

use crate::config::{Faults, Secret, Section};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// `[traces]`: the collector that spans of recorded traces are sent to, by OTLP over gRPC. Needs the feature `otlp`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TracesConfig {
    /// `http://host:port` of the collector, or `https` with a certificate that the system trusts; `""`: no spans are made.
    /// Default `""`. Watch `delayq_traces_spans_total`.
    pub endpoint: String,
    /// Headers of each call, such as a token; read at start. Default: none.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, Secret>,
    /// Attributes of the resource, in addition to `service.name`, `service.version` and `service.instance.id`, or instead of
    /// them. Default: none.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, String>,
}

// === impl TracesConfig ===

impl Section for TracesConfig {
    fn validate(&self, at: &mut Faults) {
        if self.endpoint.contains('@') {
            // The text before the @ may be a secret: it is not repeated.
            at.refuse("endpoint", "it has no user and no password; put a token into `headers`");
        } else if !self.endpoint.is_empty()
            && !self.endpoint.starts_with("http://")
            && !self.endpoint.starts_with("https://")
        {
            at.refuse(
                "endpoint",
                format!("`{}` is not http://host:port or https://host:port", self.endpoint),
            );
        }
        for (name, secret) in &self.headers {
            at.secret(&format!("headers.{name}"), Some(secret));
        }
    }
}
