//! A server by its host and port.

use redis::ConnectionAddr;
use std::fmt;
use std::str::FromStr;

/// Where sentinels listen by default.
const SENTINEL_PORT: u16 = 26379;

/// A host and a port, as a configuration or a sentinel names a server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Node {
    host: String,
    port: u16,
}

// === impl Node ===

impl Node {
    pub(super) fn new(host: impl Into<String>, port: u16) -> Self {
        Self { host: host.into(), port }
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

impl FromStr for Node {
    type Err = String;

    /// Reads `host` or `host:port` of a sentinel, with an IPv6 address in brackets.
    fn from_str(text: &str) -> Result<Self, String> {
        let refusal = || format!("`{text}` is not a sentinel; write host:port, an IPv6 address in brackets");
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().map_err(|_| refusal())?),
            _ => (text, SENTINEL_PORT),
        };
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let sound = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c) || (bare.is_some() && c == ':');
        let host = bare.unwrap_or(host);
        if host.is_empty() || !host.chars().all(sound) || port == 0 {
            return Err(refusal());
        }
        Ok(Self::new(host, port))
    }
}
