//! `[sinks.NAME.webhook]`.

use delayq_service::config::{Faults, PemFiles, Secret, Section, TlsOff};

delayq_service::section! {
    /// `[sinks.NAME.webhook]`: an HTTP endpoint. The destination is a path appended to `url`.
    pub struct WebhookConfig {
        ..files: PemFiles,
        /// `https://host/path` or `http://…`. No other host is contacted: a redirect counts as a failed delivery.
        pub url: String = String::new(),
        /// The signing key: each request has `delayq-signature: t=<unix seconds>,v1=<hex>`, the HMAC-SHA-256 of `<unix
        /// seconds>.<body>`; unset: no signature.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub secret: Option<Secret> = None,
        /// A token for `Authorization: Bearer`; unset: none.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub bearer: Option<Secret> = None,
        /// Maximum concurrent requests of the sink: 1 to 1024; default 64.
        pub connections: u16 = 64,
    }
}

impl WebhookConfig {
    fn tls_off(&self) -> TlsOff {
        self.url.starts_with("http://").then_some(("url", "`url` does not begin with https"))
    }

    #[cfg(feature = "webhook")]
    pub(super) fn explain(&self, why: String) -> String {
        self.files.explain(self.tls_off(), why)
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
        self.files.validate(self.tls_off(), at);
    }
}
