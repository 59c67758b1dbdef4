//! `[etcd]`: the etcd through which the members of a fleet find each other.

use crate::prefix::KeyPrefix;
use delayq_service::config::{Faults, HumanDuration, Login, PemFiles, Section, TlsOff, Written};
use std::fmt;
use std::str::FromStr;

delayq_service::section! {
    /// `[etcd]`: membership and the plan of shards. Messages never pass through etcd.
    pub struct EtcdConfig {
        ..files: PemFiles,
        ..login: Login,
        /// True if there is an etcd; default true. Without etcd a single timer owns every shard.
        pub enabled: bool = true,
        /// Addresses of the members, `http://host:port` or `https://host:port`, all of one kind; default one on this host.
        /// A process talks to one member at a time and moves to the next after a missing answer.
        pub endpoints: Vec<Endpoint> = vec![Endpoint::default()],
        /// The name to expect in the server's certificate; unset: the endpoint's host.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub server_name: Option<String> = None,
        /// Lease of this process, in whole seconds. 2 s to 10 m; default 5 s. The lease bounds how long the shards of a
        /// killed timer stand still; etcd may grant a longer lease.
        pub lease_ttl: HumanDuration = HumanDuration::from_secs(5),
        /// Longest wait for one answer. 100 ms to 1 m and below `lease_ttl`; default 1 s.
        pub call_deadline: HumanDuration = HumanDuration::from_secs(1),
        /// First part of every key: `/` and 1 to 64 of `A-Z a-z 0-9 . _ -`; default `/delayq`. The deployment's namespace
        /// follows the prefix.
        pub prefix: KeyPrefix = KeyPrefix::default(),
    }
}

/// The address of one etcd member, `http://host:port` or `https://host:port`, without user and password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint(String);

// === impl EtcdConfig ===

impl EtcdConfig {
    /// The default configuration, for an etcd with these endpoints.
    ///
    /// # Errors
    /// An address is not an endpoint; the message does not repeat the address.
    pub fn at<E: AsRef<str>>(endpoints: impl IntoIterator<Item = E>) -> Result<Self, String> {
        let endpoints = endpoints.into_iter().map(|endpoint| endpoint.as_ref().parse());
        Ok(Self { endpoints: endpoints.collect::<Result<_, _>>()?, ..Self::default() })
    }

    /// The endpoints, for a message.
    #[must_use]
    pub fn addresses(&self) -> String {
        let endpoints: Vec<&str> = self.endpoints.iter().map(Endpoint::as_str).collect();
        endpoints.join(", ")
    }

    pub(crate) fn is_tls(&self) -> bool {
        self.endpoints.iter().any(Endpoint::is_tls)
    }

    fn tls_off(&self) -> TlsOff {
        (!self.is_tls()).then_some(("endpoints", "no endpoint begins with https://"))
    }

    pub(crate) fn explain(&self, why: String) -> String {
        self.files.explain(self.tls_off(), why)
    }

    fn validate_endpoints(&self, at: &mut Faults) {
        if self.enabled && self.endpoints.is_empty() {
            at.contradiction(&["endpoints", "enabled"], "no endpoint: add one, or set `enabled = false`");
        }
        if self.is_tls() && !self.endpoints.iter().all(Endpoint::is_tls) {
            at.refuse(
                "endpoints",
                "endpoints mix http:// and https://, so the password would also be sent unencrypted",
            );
        }
    }
}

impl Section for EtcdConfig {
    fn validate(&self, at: &mut Faults) {
        self.validate_endpoints(at);
        let (secs, millis) = (HumanDuration::from_secs, HumanDuration::from_millis);
        at.range("lease_ttl", &self.lease_ttl, secs(2)..=secs(600));
        at.range("call_deadline", &self.call_deadline, millis(100)..=secs(60));
        if self.lease_ttl.subsec_nanos() != 0 {
            at.refuse("lease_ttl", "expected whole seconds, as etcd requires");
        }
        if self.call_deadline >= self.lease_ttl {
            at.contradiction(
                &["call_deadline", "lease_ttl"],
                "one lost reply would lose the lease: must be less than `lease_ttl`",
            );
        }
        self.login.validate_whole(at);
        self.files.validate(self.tls_off(), at);
        if let (Some(_), Some((switch, says))) = (&self.server_name, self.tls_off()) {
            at.contradiction(&["server_name", switch], format!("`server_name` needs TLS, but {says}"));
        }
    }
}

// === impl Endpoint ===

impl Endpoint {
    /// The address as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// `host:port`.
    pub(crate) fn authority(&self) -> &str {
        self.0.split_once("://").map_or(&self.0, |(_, authority)| authority)
    }

    fn is_tls(&self) -> bool {
        self.0.starts_with("https://")
    }
}

impl Default for Endpoint {
    fn default() -> Self {
        Self("http://127.0.0.1:2379".to_owned())
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let host = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
        let is_valid =
            host.is_some_and(|host| !host.is_empty() && !host.contains(['/', '?', '#', '@', ' ', ',']));
        // The message omits the text, which may hold a password.
        if is_valid { Ok(Self(text.to_owned())) } else { Err(format!("expected {}", Self::EXPECTED)) }
    }
}

delayq_service::written!(Endpoint, "\"http://host:port\" or \"https://host:port\"");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ClusterConfig;
    use delayq_service::config::{DeploymentConfig, Environment, Secret, Source, load};

    delayq_service::configuration! {
        struct Config {
            deployment: DeploymentConfig,
            etcd: EtcdConfig,
        }
    }

    fn loaded(text: &str) -> Result<Config, Vec<String>> {
        let folder = tempfile::tempdir().unwrap();
        let pem = folder.path().join("pem");
        std::fs::write(&pem, "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n").unwrap();
        let text = text.replace("PEM", &pem.display().to_string());
        let loaded = load::<Config>(&Source::text("f.toml", text), &Environment::empty());
        let keys = |faults: delayq_service::config::ConfigFaults| {
            faults.faults().iter().map(|fault| fault.key.clone()).collect()
        };
        loaded.map(|loaded| loaded.config).map_err(keys)
    }

    #[test]
    fn what_the_start_would_refuse_is_a_fault_of_the_configuration() {
        for (text, key) in [
            ("call_deadline = '50ms'", "etcd.call_deadline"),
            ("call_deadline = '20s'", "etcd.call_deadline"),
            ("lease_ttl = '11m'", "etcd.lease_ttl"),
            ("prefix = '/two/parts'", "etcd.prefix"),
            ("prefix = 'delayq'", "etcd.prefix"),
            ("prefix = '/..'", "etcd.prefix"),
            ("password = 'p'", "etcd.password"),
            ("endpoints = []", "etcd.endpoints"),
            ("endpoints = [5]", "etcd.endpoints[0]"),
            ("endpoints = ['http://a:1', 'b:1']", "etcd.endpoints[1]"),
            ("endpoints = ['http://a:1/v3']", "etcd.endpoints[0]"),
            ("endpoints = ['http://a:1?timeout=5s']", "etcd.endpoints[0]"),
            ("endpoints = ['https://a:1', 'http://b:1']", "etcd.endpoints"),
            ("endpoints = ['https://h:1']\nca = '/dev/null'", "etcd.ca"),
            ("server_name = 'etcd.internal'", "etcd.server_name"),
            ("ca = 'PEM'", "etcd.ca"),
        ] {
            assert_eq!(loaded(&format!("[etcd]\n{text}")).unwrap_err(), [key], "{text}");
        }
    }

    #[test]
    fn what_a_file_may_say_can_be_joined_with() {
        let name = "x".repeat(64);
        for text in [
            String::new(),
            "[etcd]\ncall_deadline = '100ms'\nlease_ttl = '2s'".into(),
            "[etcd]\ncall_deadline = '1m'\nlease_ttl = '10m'".into(),
            format!("[etcd]\nprefix = '/{name}'\n[deployment]\nnamespace = 'Upper_Case-9'\nshards = 4096"),
            "[etcd]\nusername = 'u'\npassword = 'p'".into(),
        ] {
            let Config { deployment, etcd } = loaded(&text).unwrap();
            let config = ClusterConfig::new(&etcd, &deployment, &name);
            assert_eq!(config.faults(), Vec::<String>::new(), "{text}");
        }
        assert!(loaded("[etcd]\nendpoints = ['https://a:1', 'https://b:1']\nca = 'PEM'").is_ok());
    }

    #[test]
    fn a_password_in_an_endpoint_is_refused_and_not_repeated() {
        for text in ["http://u:hunter2@h:1", "u:hunter2@h:1"] {
            let refusal = text.parse::<Endpoint>().unwrap_err();
            assert!(!refusal.contains("hunter2"), "{refusal}");
        }
    }

    #[test]
    fn a_password_does_not_print() {
        let login = Login { password: Some(Secret::plain("hunter2")), ..Login::default() };
        let etcd = EtcdConfig { login, ..EtcdConfig::default() };
        assert!(!format!("{etcd:?}").contains("hunter2"));
    }
}
