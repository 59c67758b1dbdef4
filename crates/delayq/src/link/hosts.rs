//! The common grammar of URLs that name several hosts: a login, the hosts, and the rest.

use super::node::Node;
use delayq_core::url::UrlForm;
use redis::{ConnectionInfo, IntoConnectionInfo};

/// `scheme://[user[:password]@]host[:port],…[/path][?query]`.
pub(super) struct Hosts<'a> {
    pub(super) tls: bool,
    login: &'a str,
    hosts: &'a str,
    pub(super) path: &'a str,
    query: &'a str,
}

// === impl Hosts ===

impl<'a> Hosts<'a> {
    pub(super) fn read(text: &'a str, &UrlForm { schemes, shape, .. }: &UrlForm) -> Result<Self, String> {
        let of = |&(scheme, tls): &(&str, bool)| Some((text.strip_prefix(scheme)?, tls));
        let (rest, tls) = schemes.iter().find_map(of).ok_or_else(|| shape.to_owned())?;
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        if query.contains('@') {
            return Err(format!("the URL has an @ behind a ?: write %3F for a ? in a password; {shape}"));
        }
        let (login, place) = place.rsplit_once('@').unwrap_or(("", place));
        let (hosts, path) = place.split_once('/').unwrap_or((place, ""));
        Ok(Self { tls, login, hosts, path, query })
    }

    /// Each host is a `what`; the port applies where the URL gives none.
    pub(super) fn nodes(
        &self,
        &UrlForm { host: what, port, shape, .. }: &UrlForm,
    ) -> Result<Vec<Node>, String> {
        if self.hosts.is_empty() {
            return Err(format!("the URL names no {what}: {shape}"));
        }
        let node = |text| {
            Node::parse(text, port).ok_or_else(|| {
                format!("`{text}` is not a {what}; write host:port, an IPv6 address in brackets")
            })
        };
        let nodes: Vec<Node> = self.hosts.split(',').map(node).collect::<Result<_, _>>()?;
        match nodes.iter().enumerate().find(|(i, node)| nodes[..*i].contains(node)) {
            Some((_, twice)) => Err(format!("the URL names the {what} {twice} twice")),
            None => Ok(nodes),
        }
    }

    /// The port applies where the URL gives none.
    pub(super) fn only(&self, port: u16) -> Result<Node, String> {
        if self.hosts.contains(',') {
            return Err(
                "the URL has several hosts: write redis+sentinel:// for sentinels, redis+cluster:// for a \
                 cluster"
                    .to_owned(),
            );
        }
        let unread =
            || "the host or the port cannot be read: write host:port, an IPv6 address in brackets".to_owned();
        Node::parse(self.hosts, port).ok_or_else(unread)
    }

    pub(super) fn query(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let pairs = self.query.split('&').filter(|pair| !pair.is_empty());
        pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")))
    }

    /// The address is a placeholder for the address of any server.
    pub(super) fn redis(&self, database: u16) -> Result<ConnectionInfo, String> {
        let login = if self.login.is_empty() { String::new() } else { format!("{}@", self.login) };
        let redis = format!("redis://{login}host/{database}");
        // Everything after a # is ignored: the login as well as the database.
        let redis =
            Some(redis).filter(|redis| !redis.contains('#')).map(IntoConnectionInfo::into_connection_info);
        redis.and_then(Result::ok).ok_or_else(|| {
            "the user or password cannot be read: write @ : / ? # % as %40 %3A %2F %3F %23 %25".to_owned()
        })
    }
}
