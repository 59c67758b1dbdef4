//! The client for HTTP endpoints.

use super::Outcome;
use crate::config::PemFiles;
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, Error, Identity};
use std::time::Duration;

/// Makes a client that follows no redirect, uses no proxy, and keeps at most this many idle connections to a host. A request
/// takes at most `patience`.
///
/// # Errors
/// A certificate cannot be used.
pub fn http_client(
    name: &str,
    files: &PemFiles,
    patience: Duration,
    connections: u16,
) -> Result<Client, String> {
    let mut builder = Client::builder()
        .user_agent(format!("{name}/{}", env!("CARGO_PKG_VERSION")))
        .no_proxy()
        .connect_timeout(patience / 2)
        .timeout(patience)
        .tcp_nodelay(true)
        .pool_max_idle_per_host(connections.into())
        .redirect(Policy::none());
    if let Some(path) = &files.ca {
        let pem = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let ca = Certificate::from_pem(&pem).map_err(|error| format!("{}: {error}", path.display()))?;
        builder = builder.tls_certs_only([ca]);
    }
    if let Some(pem) = files.identity()? {
        let identity = Identity::from_pem(&pem.join(&b'\n')).map_err(|error| format!("cert: {error}"))?;
        builder = builder.identity(identity);
    }
    builder.build().map_err(|error| error.to_string())
}

/// The outcome of a request without a complete answer.
#[must_use]
pub fn unanswered(error: &Error) -> Outcome {
    let reason = http_words(error);
    match () {
        () if error.is_builder() => Outcome::rejected(reason),
        () if error.is_connect() => Outcome::down(reason),
        () => Outcome::silent(reason),
    }
}

/// An error with all its causes: reqwest prints only the outermost.
#[must_use]
pub fn http_words(error: &Error) -> String {
    let (mut text, mut cause) = (error.to_string(), std::error::Error::source(error));
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}
