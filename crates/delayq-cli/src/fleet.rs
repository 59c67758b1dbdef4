//! The timers' fleet, seen from outside.

use crate::deployment::{CliConfig, of_cluster};
use crate::failure::NO_FLEET;
use crate::output::time;
use delayq::UnixMillis;
use delayq::protocol::DeploymentId;
use delayq_cluster::{ClusterConfig, DrainInfo, Observer, Operator};
use delayq_service::{Fault, codes};

/// Looks at the timers' fleet without joining it.
///
/// # Errors
/// A certificate or password that cannot be read.
pub fn observer(config: &CliConfig) -> Result<Observer, Fault> {
    Observer::new(&timers(config)).map_err(|error| Fault::new(&codes::CONFIG_FAULTY, error.to_string()))
}

/// Changes the timers' fleet without joining it.
///
/// # Errors
/// The timers form no fleet; a certificate or password that cannot be read.
pub fn operator(config: &CliConfig) -> Result<Operator, Fault> {
    if !config.etcd.enabled {
        return Err(Fault::new(&NO_FLEET, "[etcd] enabled = false: a single timer owns every shard"));
    }
    Operator::new(&timers(config)).map_err(|error| Fault::new(&codes::CONFIG_FAULTY, error.to_string()))
}

/// Records a deployment as that of the fleet. Returns the other one that was recorded.
///
/// # Errors
/// The timers form no fleet; etcd cannot be used.
pub async fn replace_deployment(
    config: &CliConfig,
    with: DeploymentId,
) -> Result<Option<DeploymentId>, Fault> {
    operator(config)?.replace_deployment(with).await.map_err(|error| of_cluster(&error))
}

fn timers(config: &CliConfig) -> ClusterConfig {
    ClusterConfig::new(&config.etcd, &config.deployment, "delayq-cli")
}

/// That a timer is drained, since when and why.
pub fn drained(drain: &DrainInfo) -> String {
    let DrainInfo { name, since_ms, reason, registered } = drain;
    let since = time(UnixMillis::new(*since_ms));
    let gone = if *registered { "" } else { ", and not registered" };
    let reason = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    format!("{name} is drained since {since}{gone}{reason}")
}
