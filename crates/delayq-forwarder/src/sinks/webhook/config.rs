//! `[sinks.NAME.webhook]`.

use delayq_service::config::{Faults, PemFiles, Secret, Section};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// `[sinks.NAME.webhook]`: an HTTP endpoint. The destination is a path that is added to `url`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WebhookConfig {
    /// `https://host/path` or `http://…`. No other host is contacted unless redirects are followed.
    pub url: String,
    /// The key of the signature: each request has `delayq-signature: t=<unix seconds>,v1=<hex>`, the HMAC-SHA-256 of
    /// `<unix seconds>.<body>`; unset: no signature.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<Secret>,
    /// A token for `Authorization: Bearer`; unset: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bearer: Option<Secret>,
    /// Maximum number of concurrent requests to the host of `url`, over all sinks that post to it: 1 to 1024; default 64.
    /// If they differ, the smallest applies.
    pub connections: u16,
    /// Whether redirects that keep the request (307 and 308) are followed; default false: they count as not delivered.
    /// Never from https to http, and not to private addresses. Another host receives neither `bearer` nor what `url` holds.
    pub follow_redirects: bool,
    /// Whether redirects to private addresses are followed too: loopback, link-local, RFC 1918 and the like; default
    /// false. Needs `follow_redirects`.
    pub allow_private_redirects: bool,
    /// PEM file of the authority that signed the server's certificate; unset: those of the system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// PEM file of the client's certificate, for a server that asks for one; needs `key` and `https://`.
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
            follow_redirects: false,
            allow_private_redirects: false,
            ca: None,
            cert: None,
            key: None,
        }
    }
}

impl WebhookConfig {
    /// The files of its certificates.
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
            at.refuse("url", "expected \"https://host/path\", and secrets in keys of their own");
        } else if self.url.contains(['?', '#']) {
            at.refuse("url", "the URL has no query and no fragment: paths of routes are added to its end");
        }
        if self.allow_private_redirects && !self.follow_redirects {
            at.contradiction(
                &["allow_private_redirects", "follow_redirects"],
                "no redirect is followed while `follow_redirects` is false",
            );
        }
        at.range("connections", &self.connections, 1..=1024);
        at.secret("secret", self.secret.as_ref());
        at.secret("bearer", self.bearer.as_ref());
        self.pem_files().validate(at);
    }
}
