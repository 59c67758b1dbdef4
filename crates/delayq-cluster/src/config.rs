//! The configuration of a member: etcd, the fleet to join, and the member's registration.

mod etcd;

pub use etcd::{Endpoint, EtcdConfig};

use crate::error::ClusterError;
use delayq::protocol::DeploymentId;
use delayq::{Namespace, ShardCount};
use delayq_service::config::{DeploymentConfig, Faults};
use delayq_service::is_name;
use std::time::Duration;
use tokio::sync::watch;

/// The configuration for [`crate::Cluster::start`].
#[derive(Clone, Debug)]
pub struct ClusterConfig {
    /// The connection to etcd, and the lease to ask for.
    pub etcd: EtcdConfig,
    /// The namespace, the same as in Redis.
    pub namespace: Namespace,
    /// Number of shards to divide.
    pub shards: ShardCount,
    /// The identity of the deployment in Redis; `None` while unknown: then the member joins any fleet.
    pub deployment: watch::Receiver<Option<DeploymentId>>,
    /// The member's registration.
    pub member: MemberConfig,
    /// How long the leader waits for quiet before writing a plan.
    pub plan_quiet: Duration,
    /// Maximum time that the leader waits while changes keep coming. At least `plan_quiet`.
    pub plan_at_most: Duration,
}

/// A member's description in its registration.
#[derive(Clone, Debug)]
pub struct MemberConfig {
    /// A name for people, unique among the live members if possible: a member that comes back under its name gets its
    /// shards back. 1 to 64 of `A-Z a-z 0-9 . _ -`.
    pub name: String,
    /// The program's version.
    pub version: String,
    /// Address of the member's admin endpoint, for operators. May be empty.
    pub address: String,
}

// === impl ClusterConfig ===

impl ClusterConfig {
    /// A member of this name with every default, in the deployment's fleet.
    pub fn new(etcd: &EtcdConfig, deployment: &DeploymentConfig, name: impl Into<String>) -> Self {
        Self {
            etcd: etcd.clone(),
            namespace: deployment.namespace.clone(),
            shards: deployment.shards,
            deployment: watch::channel(None).1,
            member: MemberConfig {
                name: name.into(),
                version: env!("CARGO_PKG_VERSION").into(),
                address: String::new(),
            },
            plan_quiet: Duration::from_millis(100),
            plan_at_most: Duration::from_secs(1),
        }
    }

    /// The beginning of every key of this fleet in etcd, without the trailing slash.
    pub fn base(&self) -> String {
        format!("{}/{}/timer", self.etcd.prefix, self.namespace)
    }

    /// Every fault of the configuration, in words that an operator can act on; empty without faults.
    pub fn faults(&self) -> Vec<String> {
        let mut at = Faults::default();
        at.section("etcd", &self.etcd);
        if !is_name(&self.member.name) {
            at.refuse("name", "expected 1 to 64 of A-Z a-z 0-9 . _ -");
        }
        if self.plan_at_most < self.plan_quiet {
            at.refuse("plan_at_most", "below plan_quiet");
        }
        at.into_sentences()
    }

    pub(crate) fn check(&self) -> Result<(), ClusterError> {
        let faults = self.faults();
        if faults.is_empty() { Ok(()) } else { Err(ClusterError::Config(faults.join("; "))) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_faults_are_reported_at_once() {
        let etcd = EtcdConfig::default();
        let mut config = ClusterConfig::new(&etcd, &DeploymentConfig::default(), "t1");
        assert_eq!(config.faults(), Vec::<String>::new());
        config.etcd.endpoints.clear();
        config.etcd.lease_ttl = Duration::from_millis(2500).into();
        config.member.name = String::new();
        config.plan_at_most = Duration::ZERO;
        assert_eq!(config.faults().len(), 4, "{:?}", config.faults());
    }
}
