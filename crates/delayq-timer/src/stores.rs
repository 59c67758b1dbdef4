//! From the configuration to the membership that etcd keeps.

use crate::config::TimerConfig;
use crate::timer::Membership;
use delayq_cluster::Role;
use delayq_service::config::{DeploymentConfig, EtcdConfig};
use delayq_service::{Fault, group};

/// Who divides the shards: etcd, or nobody where it is switched off. `address`: where the admin endpoint answers.
///
/// # Errors
/// A secret or certificate cannot be read any more.
pub fn membership(
    timer: &TimerConfig,
    deployment: &DeploymentConfig,
    etcd: &EtcdConfig,
    address: String,
) -> Result<Membership, Fault> {
    let name = timer.effective_name();
    if !etcd.enabled {
        return Ok(Membership::single(&name));
    }
    let mut cluster = group::group(Role::Timer, &name, deployment, etcd)?;
    cluster.member.zone.clone_from(&timer.zone);
    cluster.member.weight = timer.weight;
    cluster.member.address = address;
    cluster.strict = timer.strict;
    Ok(Membership::Etcd(Box::new(cluster)))
}
