//! Changes to the timers' fleet from outside.

use crate::deployment::CliConfig;
use crate::failure::NO_FLEET;
use delayq::protocol::DeploymentId;
use delayq_cluster::{ClusterConfig, Operator};
use delayq_look::of_cluster;
use delayq_service::{Fault, codes};

/// Creates an operator that changes the timers' fleet without joining the fleet.
///
/// # Errors
/// The timers form no fleet; or a certificate or password cannot be read.
pub fn operator(config: &CliConfig) -> Result<Operator, Fault> {
    if !config.etcd.enabled {
        return Err(Fault::new(&NO_FLEET, "[etcd] enabled = false: a single timer owns every shard"));
    }
    let fleet = ClusterConfig::new(&config.etcd, &config.deployment, "delayq-cli");
    Operator::new(&fleet).map_err(|error| Fault::new(&codes::CONFIG_FAULTY, error.to_string()))
}

/// Records a deployment as that of the fleet. Returns the other deployment that was recorded.
///
/// # Errors
/// The timers form no fleet; or etcd cannot be used.
pub async fn replace_deployment(
    config: &CliConfig,
    with: DeploymentId,
) -> Result<Option<DeploymentId>, Fault> {
    operator(config)?.replace_deployment(with).await.map_err(|error| of_cluster(&error))
}
