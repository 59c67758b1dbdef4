//! The URL of a Redis Cluster.

use super::hosts::Hosts;
use super::node::Node;
use delayq_core::url::CLUSTER;
use redis::ConnectionInfo;
use std::str::FromStr;

/// `redis+cluster://[user[:password]@]host[:port],…`; `rediss+cluster://` for TLS.
///
/// One reachable node is enough: that node names the other nodes, and the announced addresses are used.
#[derive(Clone)]
pub struct ClusterUrl {
    /// At least one.
    pub(crate) nodes: Vec<Node>,
    tls: bool,
    /// The login; the address is a placeholder for the address of any node.
    redis: ConnectionInfo,
}

// === impl ClusterUrl ===

impl ClusterUrl {
    /// Returns true if the URL has a cluster scheme.
    pub fn is_meant_by(url: &str) -> bool {
        CLUSTER.schemes.iter().any(|(scheme, _)| url.starts_with(scheme))
    }

    pub(crate) fn node(&self, node: &Node) -> ConnectionInfo {
        self.redis.clone().set_addr(node.at(self.tls))
    }
}

impl FromStr for ClusterUrl {
    type Err = String;

    /// Names each fault without repeating the user or the password.
    fn from_str(text: &str) -> Result<Self, String> {
        let hosts = Hosts::read(text, &CLUSTER)?;
        let nodes = hosts.nodes(&CLUSTER)?;
        if !["", "0"].contains(&hosts.path) {
            return Err("the URL names a database; a Redis Cluster has the database 0 alone".to_owned());
        }
        if hosts.query().next().is_some() {
            return Err("the query of the URL has a parameter; the URL of a cluster has none".to_owned());
        }
        Ok(Self { nodes, tls: hosts.tls, redis: hosts.redis(0)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_some_nodes_and_the_login() {
        let ClusterUrl { nodes, tls, redis } =
            "rediss+cluster://user:p%40ss@n1:1,[::1]:2,n3/".parse().unwrap();
        assert_eq!(nodes.iter().map(Node::to_string).collect::<Vec<_>>(), ["n1:1", "[::1]:2", "n3:6379"]);
        let login = redis.redis_settings();
        assert_eq!((tls, login.username(), login.password()), (true, Some("user"), Some("p@ss")));
    }

    #[test]
    fn each_fault_is_named_and_no_secret_is_repeated() {
        for (text, named) in [
            ("redis://h:1", "expected redis+cluster://"),
            ("redis+cluster://:hunter2@", "names no node"),
            ("redis+cluster://:hunter2@n1:x", "`n1:x` is not a node"),
            ("redis+cluster://n1:1,n1:1", "n1:1 twice"),
            ("redis+cluster://:hunter2@n1:1/2", "database 0 alone"),
            ("redis+cluster://n1:1?pass=hunter2", "has a parameter"),
            ("redis+cluster://u:hun#ter2@n1:1", "user or password cannot be read"),
        ] {
            let refusal = text.parse::<ClusterUrl>().err().unwrap_or_else(|| panic!("{text}"));
            assert!(refusal.contains(named), "{text}: {refusal}");
            assert!(!refusal.contains("ter2"), "{refusal}");
        }
    }
}
