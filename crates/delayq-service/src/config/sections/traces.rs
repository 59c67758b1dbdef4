//! `[traces]`: the collector of spans.

use crate::config::{Faults, Secret, Section};
use hyper::Uri;
use hyper::header::{HeaderName, HeaderValue};
use hyper::http::uri::Authority;
use secrecy::ExposeSecret as _;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::str::FromStr as _;

/// `[traces]`: the OTLP collector (gRPC) that receives the spans of recorded traces. Needs the feature `otlp`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TracesConfig {
    /// `http://host:port` of the collector, or `https` with a certificate that the system trusts; `""`: no spans are
    /// recorded. Default `""`. Watch `delayq_traces_spans_total`.
    pub endpoint: String,
    /// Headers of each call, such as a token; read at start. Default: none.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, Secret>,
    /// Attributes of the resource, added to `service.name`, `service.version` and `service.instance.id`, or replacing
    /// them. Default: none.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, String>,
}

// === impl TracesConfig ===

impl Section for TracesConfig {
    fn validate(&self, at: &mut Faults) {
        if self.endpoint.contains('@') {
            // The text before the @ may be a secret and is not repeated.
            at.refuse("endpoint", "the URL must have no user and no password; put a token into `headers`");
        } else if !self.endpoint.is_empty() && !is_endpoint(&self.endpoint) {
            at.refuse(
                "endpoint",
                format!("`{}` is not http://host:port or https://host:port", self.endpoint),
            );
        }
        for (name, secret) in &self.headers {
            if let Err(why) = check_header(name, secret) {
                at.refuse(&format!("headers.{name}"), why);
            }
        }
    }
}

fn is_endpoint(text: &str) -> bool {
    let Ok(uri) = text.parse::<Uri>() else { return false };
    // The URI parser leaves an invalid port in the authority.
    let is_whole = |at: &Authority| at.port_u16().is_some() || at.host() == at.as_str();
    // A path, as exports over HTTP have one, would be ignored.
    let is_bare = uri.path_and_query().is_none_or(|path| path == "/");
    matches!(uri.scheme_str(), Some("http" | "https")) && is_bare && uri.authority().is_some_and(is_whole)
}

/// Checks that a call can carry this header; the fault does not repeat its value.
fn check_header(name: &str, secret: &Secret) -> Result<(), String> {
    if HeaderName::from_str(name).is_err() {
        return Err("not the name of a header".to_owned());
    }
    if name.to_ascii_lowercase().ends_with("-bin") {
        return Err("names that end in -bin have binary values, which cannot be configured".to_owned());
    }
    let value = secret.reveal()?;
    let read = HeaderValue::from_str(value.expose_secret());
    read.map(drop).map_err(|_| {
        "the value contains characters that are invalid in a header, such as a line break".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_forwarder_would_refuse_at_its_start_is_a_fault_of_the_configuration() {
        let faults = |endpoint: &str, header: (&str, &str)| {
            let headers = [(header.0.to_owned(), Secret::plain(header.1))].into();
            let config = TracesConfig { endpoint: endpoint.to_owned(), headers, ..TracesConfig::default() };
            let mut at = Faults::default();
            at.section("traces", &config);
            at.into_sentences()
        };
        let (endpoint, header) = ("https://collector.internal:4317", ("authorization", "Bearer a1"));
        assert_eq!(faults(endpoint, header), Vec::<String>::new());
        assert_eq!(faults("", header), Vec::<String>::new());
        for wrong in [
            "http://",
            "http://a b:4317",
            "http://collector:99999x",
            "collector:4317",
            "http://collector:4318/v1/traces",
            "http://collector:4317?insecure=true",
        ] {
            let found = faults(wrong, header);
            assert!(found.len() == 1 && found[0].starts_with("traces.endpoint: "), "{wrong}: {found:?}");
        }
        for (name, value) in [("two words", "a1"), ("", "a1"), ("x-bin", "a1"), ("x", "a\nhunter2")] {
            let found = faults(endpoint, (name, value));
            assert!(
                found.len() == 1 && found[0].starts_with(&format!("traces.headers.{name}: ")),
                "{found:?}"
            );
            assert!(!found[0].contains("hunter2"), "{found:?}");
        }
    }
}
