//! A server by host and port.

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
    pub(crate) fn new(host: impl Into<String>, port: u16) -> Self {
        Self { host: host.into(), port }
    }

    /// An IPv6 address has brackets.
    pub(crate) fn parse(text: &str, port: u16) -> Option<Self> {
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()?),
            _ => (text, port),
        };
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let sound = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c) || (bare.is_some() && c == ':');
        let host = bare.unwrap_or(host);
        (!host.is_empty() && host.chars().all(sound) && port != 0).then(|| Self::new(host, port))
    }

    /// `host:port`, where the host may be missing and an IPv6 address has no brackets. `None` if there is no
    /// target: `?` is a node without a name, and port 0 a node with an unknown port.
    pub(crate) fn redirected(&self, text: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let host = if host.is_empty() { &self.host } else { host };
        let port = port.parse().ok().filter(|port| *port != 0)?;
        (host != "?").then(|| Self::new(host, port))
    }

    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    pub(crate) fn at(&self, tls: bool) -> ConnectionAddr {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirection_without_a_host_is_to_the_same_host_and_one_to_nowhere_is_none() {
        let node = Node::new("here", 7000);
        for (text, to) in [
            ("there:7001", "there:7001"),
            (":7001", "here:7001"),
            ("::1:7001", "[::1]:7001"),
            ("?:7001", ""),
            ("there:0", ""),
            ("there:x", ""),
            ("there", ""),
        ] {
            assert_eq!(node.redirected(text).map(|node| node.to_string()).unwrap_or_default(), to, "{text}");
        }
    }

    #[test]
    fn a_node_is_read_as_it_is_printed() {
        for node in [Node::new("a-1.b_2", 7000), Node::new("10.0.0.1", 1), Node::new("fe80::1", 65535)] {
            assert_eq!(Node::parse(&node.to_string(), 0), Some(node));
        }
    }
}
