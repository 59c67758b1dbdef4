//! The forms of the URLs of Redis that every client takes.

/// One form of a URL.
#[derive(Clone, Copy, Debug)]
pub struct UrlForm {
    /// The shape of Redis.
    pub kind: &'static str,
    /// The schemes, and whether each asks for TLS.
    pub schemes: [(&'static str, bool); 2],
    /// One of the hosts in words.
    pub host: &'static str,
    /// The default port.
    pub port: u16,
    /// The form in words.
    pub shape: &'static str,
    /// The parameters of the query, each at most once.
    pub query: &'static [&'static str],
}

/// One Redis.
pub const SINGLE: UrlForm = UrlForm {
    kind: "single",
    schemes: [("redis://", false), ("rediss://", true)],
    host: "Redis",
    port: 6379,
    shape: "expected redis://[user[:password]@]host[:port][/db], rediss://… for TLS, or unix:///path[?db=N]",
    query: &["db"],
};

/// One Redis behind a unix socket, which has no port.
pub const SOCKET: UrlForm = UrlForm {
    kind: "socket",
    schemes: [("unix://", false), ("redis+unix://", false)],
    host: "socket",
    port: 0,
    shape: "expected unix:///path[?db=N]",
    query: &["db", "user", "pass"],
};

/// A Redis whose address sentinels know.
pub const SENTINEL: UrlForm = UrlForm {
    kind: "sentinel",
    schemes: [("redis+sentinel://", false), ("rediss+sentinel://", true)],
    host: "sentinel",
    port: 26379,
    shape: "expected redis+sentinel://host:port,host:port/service",
    query: &["db"],
};

/// A Redis Cluster.
pub const CLUSTER: UrlForm = UrlForm {
    kind: "cluster",
    schemes: [("redis+cluster://", false), ("rediss+cluster://", true)],
    host: "node of a cluster",
    port: 6379,
    shape: "expected redis+cluster://host:port,host:port",
    query: &[],
};

/// Every form.
pub const FORMS: [UrlForm; 4] = [SINGLE, SOCKET, SENTINEL, CLUSTER];
