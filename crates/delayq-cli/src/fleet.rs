//! The timers' fleet, seen from outside.

use crate::deployment::CliConfig;
use delayq_cluster::{ClusterConfig, Observer, Role};
use delayq_service::{Fault, codes};

/// Looks at the timers' fleet without joining it.
///
/// # Errors
/// A certificate or password that cannot be read.
pub fn observer(config: &CliConfig) -> Result<Observer, Fault> {
    let fleet = ClusterConfig::new(&config.etcd, &config.deployment, Role::Timer, "delayq-cli");
    Observer::new(&fleet).map_err(|error| Fault::new(&codes::CONFIG_FAULTY, error.to_string()))
}
