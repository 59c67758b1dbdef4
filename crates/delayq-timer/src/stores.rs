//! From the configuration to the membership that etcd keeps.

use crate::config::TimerConfig;
use crate::timer::Membership;
use delayq_cluster::{ClusterConfig, EtcdConfig};
use delayq_service::config::DeploymentConfig;

/// Who divides the shards: etcd, or nobody where it is switched off. `address`: where other hosts reach the admin endpoint.
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
