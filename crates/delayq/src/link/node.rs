//! A server by its host and port.

use redis::ConnectionAddr;
use std::fmt;

/// A host and a port, as a configuration, a sentinel or a cluster names a server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Node {
    host: String,
    port: u16,
}

// === impl Node ===

impl Node {
    pub(super) fn new(host: impl Into<String>, port: u16) -> Self {
        Self { host: host.into(), port }
    }

    /// Reads `host` or `host:port`, with an IPv6 address in brackets.
    pub(super) fn parse(text: &str, port: u16) -> Option<Self> {
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()?),
            _ => (text, port),
        };
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let sound = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c) || (bare.is_some() && c == ':');
        let host = bare.unwrap_or(host);
        (!host.is_empty() && host.chars().all(sound) && port != 0).then(|| Self::new(host, port))
    }

    /// Reads where an answer of this node redirects to: `host:port`, of which the host may be missing, and an IPv6 address
    /// has no brackets.
    pub(super) fn redirected(&self, text: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let host = if host.is_empty() { &self.host } else { host };
        Some(Self::new(host, port.parse().ok()?))
    }

    pub(super) fn host(&self) -> &str {
        &self.host
    }

    pub(super) fn at(&self, tls: bool) -> ConnectionAddr {
        let (host, port) = (self.host.clone(), self.port);
        match tls {
            true => ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None },
            false => ConnectionAddr::Tcp(host, port),
        }
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}
