//! The timers' fleet, changed from outside.

use crate::deployment::CliConfig;
use crate::failure::NO_FLEET;
use delayq_cluster::{ClusterConfig, Operator};
use delayq_service::{Fault, codes};

/// Changes the timers' fleet without joining it.
///
/// # Errors
/// The timers form no fleet; a certificate or password that cannot be read.
pub fn operator(config: &CliConfig) -> Result<Operator, Fault> {
    if !config.etcd.enabled {
        return Err(Fault::new(&NO_FLEET, "[etcd] enabled = false: a single timer owns every shard"));
    }
    let fleet = ClusterConfig::new(&config.etcd, &config.deployment, "delayq-cli");
    Operator::new(&fleet).map_err(|error| Fault::new(&codes::CONFIG_FAULTY, error.to_string()))
}
