//! `[sinks.NAME.webhook]`.

use delayq_service::config::{Faults, PemFiles, Secret, Section};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// `[sinks.NAME.webhook]`: an HTTP endpoint. The destination is a path appended to `url`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WebhookConfig {
    /// `https://host/path` or `http://…`. No other host is contacted: a redirect counts as a failed delivery.
    pub url: String,
    /// The signing key: each request has `delayq-signature: t=<unix seconds>,v1=<hex>`, the HMAC-SHA-256 of `<unix
    /// seconds>.<body>`; unset: no signature.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<Secret>,
    /// A token for `Authorization: Bearer`; unset: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bearer: Option<Secret>,
    /// Maximum concurrent requests of the sink: 1 to 1024; default 64.
    pub connections: u16,
    /// PEM file of the authority that signed the server's certificate; unset: the system's authorities.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// PEM file of the client's certificate, if the server requires one; needs `key` and `https://`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert: Option<PathBuf>,
    /// PEM file of the private key of `cert`, without a passphrase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
}

impl Default for WebhookConfig {
    fn default() -> Self {
        Self {
            url: String::new(),
            secret: None,
            bearer: None,
            connections: 64,
            ca: None,
            cert: None,
            key: None,
        }
    }
}

impl WebhookConfig {
    pub(super) fn pem_files(&self) -> PemFiles<'_> {
        let off = self.url.starts_with("http://").then_some(("url", "`url` does not begin with https"));
        PemFiles { ca: self.ca.as_deref(), cert: self.cert.as_deref(), key: self.key.as_deref(), off }
    }
}

impl Section for WebhookConfig {
    fn validate(&self, at: &mut Faults) {
        let rest = self.url.strip_prefix("https://").or_else(|| self.url.strip_prefix("http://"));
        let host = rest.map_or("", |rest| rest.split('/').next().unwrap_or_default());
        if host.is_empty() || host.contains('@') || self.url.contains(char::is_whitespace) {
            at.refuse("url", "expected \"https://host/path\"; secrets have their own keys");
        } else if self.url.contains(['?', '#']) {
            at.refuse("url", "the URL must have no query and no fragment: paths of routes are appended");
        }
        at.range("connections", &self.connections, 1..=1024);
        at.secret("secret", self.secret.as_ref());
        at.secret("bearer", self.bearer.as_ref());
        self.pem_files().validate(at);
    }
}
