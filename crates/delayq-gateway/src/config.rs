//! `[gateway]`: the address of the gateway, access, and limits.

use crate::oidc::OidcConfig;
use delayq::Topic;
use delayq_service::config::{ByteSize, Faults, HostPort, HumanDuration, PemFiles, Secret, Section, TlsOff};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

delayq_service::section! {
    /// `[gateway]`: HTTP. `cert` and `key` are the gateway's certificate, with the chain below its authority, and its private key;
    /// unset: HTTP without TLS. Each client has to show a certificate of the authority `ca`, if set. The files are read again
    /// after a change.
    pub struct GatewayConfig {
        ..files: PemFiles,
        /// Address; port 0: a free port, named in the log. Default `127.0.0.1:9480`. An address that other hosts reach needs
        /// `tokens` or `insecure`, and `cert` or `cleartext`.
        pub listen: HostPort = HostPort::new("127.0.0.1", 9480),
        /// File of the tokens that requests may carry, one a line: a name, the SHA-256 of the token in hex, and rights: `read`,
        /// `payload`, `put`, `consume`, `act`, `manage`, `audit`; without any, the token has all. `tenant=NAME` limits it to the
        /// topics and groups of a tenant, `until=TIME` ends it. Read again after a change. `None`: no request needs a token.
        pub tokens: Option<PathBuf> = None,
        /// Serve other hosts without tokens. Default false.
        pub insecure: bool = false,
        /// Serve other hosts without TLS: a proxy in front ends TLS, or the network is trusted. Default false.
        pub cleartext: bool = false,
        /// Signs receipts; the same in every gateway of the deployment, 16 characters or more. `None`: gateways keep a key in
        /// Redis.
        pub receipt_key: Option<Secret> = None,
        /// Maximum open connections: 1 to 1,000,000; default 10,000. Further connections are answered 503.
        pub max_connections: u32 = 10_000,
        /// Maximum reserves that wait, and streams: 1 to `max_connections`; default 5,000. Further ones are answered 503.
        pub max_polls: u32 = 5_000,
        /// Maximum bytes of request bodies in memory: 4 MiB to 4 GiB; default 64 MiB. Further requests are answered 503.
        pub max_bytes: ByteSize = ByteSize::from_mib(64),
        /// Longest time for the head of a request, between two requests of a connection, and without a frame of a stream's
        /// client, whom half of it pings: 100 ms to 10 m; default 30 s.
        pub header_timeout: HumanDuration = HumanDuration::from_secs(30),
        /// Longest time for the body of a request, or for one line of NDJSON: 100 ms to 10 m; default 30 s.
        pub body_timeout: HumanDuration = HumanDuration::from_secs(30),
        /// Longest time that a client may leave an answer unread: 100 ms to 10 m; default 30 s.
        pub write_timeout: HumanDuration = HumanDuration::from_secs(30),
        /// Lease of a reserve that asks for none: 1 s to 24 h; default 30 s. After it, a message comes back that a client took
        /// and lost.
        pub lease: HumanDuration = HumanDuration::from_secs(30),
        /// About how many entries the log of actions keeps: 0 to 10,000,000; 0: no log; default 20,000. An entry takes about 300
        /// bytes of Redis.
        pub actions: u32 = 20_000,
        /// Admin endpoints of processes that etcd does not name: forwarders, compensators, and timers without etcd. The page and
        /// `/v1/processes` show what these export. Default: none.
        pub processes: Vec<HostPort> = Vec::new(),
        /// The identity provider of people; unset: the page asks for a token. Needs `tokens`, which programs use, and people while
        /// the provider is away.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub oidc: Option<OidcConfig> = None,
        /// JSON pointers to the values of a payload that everybody with the right `read` sees, by topic. Default: none, so only
        /// size and type are shown.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        pub shown: BTreeMap<String, Vec<String>> = BTreeMap::new(),
    }
}

// === impl GatewayConfig ===

impl GatewayConfig {
    /// True if only programs of this host reach the gateway.
    #[must_use]
    pub fn is_local(&self) -> bool {
        let host = self.listen.host();
        host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    }

    fn tls_off(&self) -> TlsOff {
        self.files.cert.is_none().then_some(("cert", "`cert` is not set"))
    }
}

impl Section for GatewayConfig {
    fn validate(&self, at: &mut Faults) {
        if !self.is_local() && self.tokens.is_none() && !self.insecure {
            let why = "other hosts reach this address: set `tokens`, or `insecure = true` to serve anyone";
            at.contradiction(&["listen", "tokens"], why);
        }
        if !self.is_local() && self.files.cert.is_none() && !self.cleartext {
            let why = "other hosts reach this address: set `cert` and `key`, or `cleartext = true` where a proxy ends TLS";
            at.contradiction(&["listen", "cert"], why);
        }
        if let Some(oidc) = &self.oidc {
            at.section("oidc", oidc);
            if self.tokens.is_none() {
                let why = "people need tokens beside them: set `tokens`, which programs use, and people while the provider is away";
                at.contradiction(&["oidc", "tokens"], why);
            }
        }
        self.files.validate(self.tls_off(), at);
        at.secret("receipt_key", self.receipt_key.as_ref());
        at.range("max_connections", &self.max_connections, 1..=1_000_000);
        at.range("max_polls", &self.max_polls, 1..=self.max_connections.max(1));
        at.range("max_bytes", &self.max_bytes, ByteSize::from_mib(4)..=ByteSize::from_gib(4));
        let times = [
            ("header_timeout", &self.header_timeout),
            ("body_timeout", &self.body_timeout),
            ("write_timeout", &self.write_timeout),
        ];
        for (key, time) in times {
            at.range(key, time, HumanDuration::from_millis(100)..=HumanDuration::from_secs(600));
        }
        at.range("lease", &self.lease, HumanDuration::from_secs(1)..=HumanDuration::from_secs(86_400));
        at.range("actions", &self.actions, 0..=10_000_000);
        for (topic, pointers) in &self.shown {
            if let Err(why) = Topic::new(topic.as_str()) {
                at.refuse("shown", format!("`{topic}` is no name of a topic: {why}"));
            }
            // An empty pointer would show all of a payload that is no object.
            if let Some(pointer) = pointers.iter().find(|pointer| !pointer.starts_with('/')) {
                at.refuse(
                    "shown",
                    format!("`{pointer}` of {topic} is no JSON pointer: write /key or /key/0"),
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use delayq_service::config::{Environment, Source, load};

    delayq_service::configuration! {
        struct Alone { gateway: GatewayConfig }
    }

    fn faults(text: &str) -> String {
        let loaded = load::<Alone>(&Source::text("delayq.toml", text), &Environment::empty());
        loaded.err().map(|faults| faults.to_string()).unwrap_or_default()
    }

    #[test]
    fn a_gateway_that_other_hosts_reach_needs_tokens_and_tls_or_an_explicit_word_for_each() {
        for host in ["0.0.0.0", "[::]", "10.0.0.7", "gateway.internal"] {
            let listen = format!("[gateway]\nlisten = '{host}:9480'\n");
            let both = faults(&listen);
            assert!(both.contains("insecure = true") && both.contains("cleartext = true"), "{host}: {both}");
            let clear = format!("{listen}cleartext = true\n");
            assert!(faults(&clear).contains("insecure = true"), "{host}: {}", faults(&clear));
            assert_eq!(faults(&format!("{clear}insecure = true\n")), "");
            assert_eq!(faults(&format!("{clear}tokens = '/etc/delayq/tokens'\n")), "");
            let insecure = format!("{listen}insecure = true\n");
            assert!(faults(&insecure).contains("cleartext = true"), "{host}: {}", faults(&insecure));
        }
        for host in ["127.0.0.1", "127.9.0.1", "[::1]", "localhost"] {
            assert_eq!(faults(&format!("[gateway]\nlisten = '{host}:0'\n")), "", "{host}");
        }
    }

    #[test]
    fn a_list_of_shown_values_with_a_faulty_pointer_is_refused() {
        for (pointer, is_sound) in
            [("/id", true), ("/items/0/name", true), ("", false), ("id", false), ("$.id", false)]
        {
            let found = faults(&format!("[gateway]\nshown.orders = ['{pointer}']\n"));
            assert_eq!(found.is_empty(), is_sound, "{pointer}: {found}");
        }
    }

    #[test]
    fn polls_cannot_take_more_connections_than_there_are() {
        assert!(faults("[gateway]\nmax_connections = 10\nmax_polls = 11\n").contains("max_polls"));
    }
}
