//! Derives the membership from the configuration.

use crate::config::TimerConfig;
use crate::timer::Membership;
use delayq_cluster::{ClusterConfig, EtcdConfig};
use delayq_service::config::DeploymentConfig;

/// The membership: by etcd, or single if etcd is switched off. `address` is the admin endpoint's address for other
/// hosts.
#[must_use]
pub fn membership(
    timer: &TimerConfig,
    deployment: &DeploymentConfig,
    etcd: &EtcdConfig,
    address: String,
) -> Membership {
    let name = timer.effective_name();
    if !etcd.enabled {
        return Membership::single(&name);
    }
    let mut cluster = ClusterConfig::new(etcd, deployment, name);
    cluster.member.address = address;
    Membership::Etcd(Box::new(cluster))
}
