//! What a member must be told: where etcd is, which group it joins, and what it is.

use crate::error::ClusterError;
use crate::prefix::{KeyPrefix, is_key_part};
use delayq_core::{Namespace, Password, ShardCount};
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

/// How long a leader waits for more changes before it writes a plan.
pub(crate) const PLAN_QUIET: Duration = Duration::from_millis(100);
/// The longest that a stream of changes may hold a plan back.
pub(crate) const PLAN_AT_MOST: Duration = Duration::from_secs(1);
/// How long [`crate::Cluster::join`] tries before it gives up.
pub(crate) const JOIN_DEADLINE: Duration = Duration::from_secs(15);
/// The least time between two load reports of one member.
pub(crate) const LOAD_REPORT_EVERY: Duration = Duration::from_secs(30);

/// Everything [`crate::Cluster::join`] needs.
#[derive(Clone, Debug)]
pub struct ClusterConfig {
    /// How to reach etcd.
    pub etcd: EtcdAccess,
    /// The first part of every key. Several deployments of delayq may share an etcd by it.
    pub prefix: KeyPrefix,
    /// The namespace, the same as in Redis.
    pub namespace: Namespace,
    /// The group to join: each role divides the shards anew.
    pub role: Role,
    /// What this member says of itself.
    pub member: MemberConfig,
    /// How many shards there are to divide.
    pub shards: ShardCount,
    /// The lease time to ask for: whole seconds of [`ClusterConfig::LEASE_TTLS`], default [`ClusterConfig::LEASE_TTL`]. What
    /// etcd granted is what counts. A dead member's shards wait that long; a keep-alive goes out every third of it.
    pub lease_ttl: Duration,
    /// Whether a member that cannot reach etcd gives its shards up once its lease is no longer to be trusted. Off: it
    /// keeps them, which is safe because the pump is safe under two owners.
    pub strict: bool,
    /// How long the leader waits for quiet before it writes a plan.
    pub plan_quiet: Duration,
    /// How long the leader waits at most while changes keep coming. At least `plan_quiet`.
    pub plan_at_most: Duration,
    /// How long joining may take. Zero: one try.
    pub join_deadline: Duration,
    /// The least time between two load reports.
    pub load_report_every: Duration,
}

/// Where etcd is and how it knows us.
#[derive(Clone, Debug)]
pub struct EtcdAccess {
    /// `http://host:port` or `https://host:port`, one per etcd member, all with TLS or none. A process talks to one at a
    /// time and moves to the next when it does not answer.
    pub endpoints: Vec<String>,
    /// TLS, for `https` endpoints. None: the system's roots, no certificate of our own.
    pub tls: Option<TlsConfig>,
    /// User and password, where etcd has authentication switched on.
    pub credentials: Option<Credentials>,
    /// The deadline of one request, of [`EtcdAccess::REQUEST_DEADLINES`] and below the lease time; default
    /// [`EtcdAccess::REQUEST_DEADLINE`].
    pub request_deadline: Duration,
}

/// How to trust etcd's certificate, and which one to show.
#[derive(Clone, Debug, Default)]
pub struct TlsConfig {
    /// The authority that signed etcd's certificate, as PEM. None: the system's roots.
    pub authority_pem: Option<Vec<u8>>,
    /// The name to expect in the certificate, where it is not the endpoint's host.
    pub server_name: Option<String>,
    /// Our own certificate, where etcd asks for one.
    pub identity: Option<Identity>,
}

/// A certificate and its key.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The certificate chain, as PEM.
    pub certificate_pem: Vec<u8>,
    /// The private key, as PEM.
    pub key_pem: SecretString,
}

/// A user of etcd.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// The user's name.
    pub user: String,
    /// The password, read for each connection.
    pub password: Password,
}

/// What a member says of itself in its registration.
#[derive(Clone, Debug)]
pub struct MemberConfig {
    /// A name for people, unique among the live members if it can be: a member that comes back under its name gets its
    /// shards back. 1 to 64 of `A-Z a-z 0-9 . _ -`.
    pub name: String,
    /// The failure zone; shards are spread evenly over zones where the counts allow. May be empty.
    pub zone: String,
    /// How much this member can carry, beside the others': 1 to 1000.
    pub weight: u16,
    /// The program's version.
    pub version: String,
    /// Where the member's admin endpoint answers, for operators. May be empty.
    pub address: String,
}

/// The groups that divide the shards among themselves, each for its own work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Pumps due messages into their ready queues.
    Timer,
    /// Delivers ready messages.
    Forwarder,
    /// Replays and sweeps.
    Compensator,
}

// === impl ClusterConfig ===

impl ClusterConfig {
    /// The default of `lease_ttl`.
    pub const LEASE_TTL: Duration = Duration::from_secs(5);
    /// What `lease_ttl` may be.
    pub const LEASE_TTLS: RangeInclusive<Duration> = Duration::from_secs(2)..=Duration::from_secs(600);

    /// A configuration with every default, for one etcd and a number of shards.
    pub fn new(endpoints: Vec<String>, role: Role, name: impl Into<String>, shards: ShardCount) -> Self {
        Self {
            etcd: EtcdAccess {
                endpoints,
                tls: None,
                credentials: None,
                request_deadline: EtcdAccess::REQUEST_DEADLINE,
            },
            prefix: KeyPrefix::default(),
            namespace: Namespace::default(),
            role,
            member: MemberConfig {
                name: name.into(),
                zone: String::new(),
                weight: 1,
                version: env!("CARGO_PKG_VERSION").into(),
                address: String::new(),
            },
            shards,
            lease_ttl: Self::LEASE_TTL,
            strict: false,
            plan_quiet: PLAN_QUIET,
            plan_at_most: PLAN_AT_MOST,
            join_deadline: JOIN_DEADLINE,
            load_report_every: LOAD_REPORT_EVERY,
        }
    }

    /// Every fault in the configuration, in words an operator can act on; empty when there is none.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = self.etcd.faults();
        let name = &self.member.name;
        if !is_key_part(name) {
            faults.push(format!("name {name:?}: 1 to 64 of A-Z a-z 0-9 . _ - are needed"));
        }
        if !(1..=1000).contains(&self.member.weight) {
            faults.push(format!("weight {}: must be 1 to 1000", self.member.weight));
        }
        let ttl = self.lease_ttl;
        if !Self::LEASE_TTLS.contains(&ttl) || ttl.subsec_nanos() != 0 {
            faults.push(format!("lease_ttl {ttl:?}: must be whole seconds from 2s to 10m"));
        }
        if self.etcd.request_deadline >= ttl {
            faults.push(format!(
                "request_deadline {:?}: must be below lease_ttl, or one lost answer costs the lease",
                self.etcd.request_deadline
            ));
        }
        if self.plan_at_most < self.plan_quiet {
            faults.push(format!(
                "plan_at_most {:?} is below plan_quiet {:?}",
                self.plan_at_most, self.plan_quiet
            ));
        }
        faults
    }

    pub(crate) fn check(&self) -> Result<(), ClusterError> {
        let faults = self.faults();
        if faults.is_empty() { Ok(()) } else { Err(ClusterError::Config(faults.join("; "))) }
    }
}

// === impl EtcdAccess ===

impl EtcdAccess {
    /// The default of `request_deadline`.
    pub const REQUEST_DEADLINE: Duration = Duration::from_secs(1);
    /// What `request_deadline` may be.
    pub const REQUEST_DEADLINES: RangeInclusive<Duration> =
        Duration::from_millis(100)..=Duration::from_secs(60);

    /// Whether some of these endpoints are asked with TLS and others without: a password would go to both.
    pub fn mixes_tls(endpoints: &[String]) -> bool {
        let encrypted = |endpoint: &String| endpoint.starts_with("https://");
        endpoints.iter().any(encrypted) && !endpoints.iter().all(encrypted)
    }

    fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.endpoints.is_empty() {
            faults.push("endpoints: at least one is needed".into());
        }
        for (n, endpoint) in self.endpoints.iter().enumerate() {
            let known = endpoint.starts_with("http://") || endpoint.starts_with("https://");
            // Not repeated: it may hold a password, which would be printed with every endpoint that does not answer.
            if !known || endpoint.contains('@') {
                faults.push(format!("endpoint {n}: must be http://host:port or https://host:port"));
            }
        }
        if Self::mixes_tls(&self.endpoints) {
            faults.push(
                "endpoints: some begin with http://, others with https://; all must be the same".into(),
            );
        }
        if self.tls.is_some() && self.endpoints.iter().any(|e| e.starts_with("http://")) {
            faults.push("tls is configured, but an endpoint starts with http://".into());
        }
        if !Self::REQUEST_DEADLINES.contains(&self.request_deadline) {
            faults.push(format!("request_deadline {:?}: must be 100ms to 1m", self.request_deadline));
        }
        faults
    }
}

// === impl Role ===

impl Role {
    /// The role as it stands in keys and configuration.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Timer => "timer",
            Self::Forwarder => "forwarder",
            Self::Compensator => "compensator",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> ClusterConfig {
        let shards = ShardCount::new(8).unwrap();
        ClusterConfig::new(vec!["http://127.0.0.1:2379".into()], Role::Timer, "t1", shards)
    }

    #[test]
    fn the_defaults_have_no_fault() {
        assert_eq!(config().faults(), Vec::<String>::new());
    }

    #[test]
    fn all_faults_are_told_at_once() {
        let mut bad = config();
        bad.etcd.endpoints = vec!["127.0.0.1:2379".into()];
        bad.member.name = String::new();
        bad.member.weight = 0;
        bad.lease_ttl = Duration::from_millis(2500);
        bad.plan_at_most = Duration::ZERO;
        assert_eq!(bad.faults().len(), 5, "{:?}", bad.faults());
    }

    #[test]
    fn a_password_goes_to_no_endpoint_without_tls_beside_one_with_it() {
        let mut mixed = config();
        mixed.etcd.endpoints = vec!["https://a:2379".into(), "http://b:2379".into()];
        assert_eq!(mixed.faults().len(), 1, "{:?}", mixed.faults());
    }

    #[test]
    fn a_password_in_an_endpoint_is_refused_and_not_repeated() {
        let mut secret = config();
        secret.etcd.endpoints = vec!["http://u:hunter2@h:1".into(), "u:hunter2@h:1".into()];
        assert_eq!(secret.faults().len(), 2);
        assert!(!format!("{:?}", secret.faults()).contains("hunter2"));
    }

    #[test]
    fn a_password_does_not_print() {
        let credentials = Credentials { user: "timer".into(), password: "hunter2".into() };
        assert!(!format!("{credentials:?}").contains("hunter2"));
    }
}
