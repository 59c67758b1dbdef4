//! The whole configuration file, every role's sections included: what `delayq config` checks and shows.

use std::collections::BTreeMap;

use delayq_compensator::CompensatorConfig;
use delayq_forwarder::{ForwarderConfig, RouteConfig, Settings, SinkConfig};
use delayq_service::config::{
    AdminConfig, DeploymentConfig, EtcdConfig, Faults, LogConfig, Places, RedisConfig, Section,
    ShutdownConfig, SpoolConfig,
};
use delayq_timer::TimerConfig;
use serde::{Deserialize, Serialize};

/// Every section that any binary of delayq knows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WholeConfig {
    /// `[deployment]`
    pub deployment: DeploymentConfig,
    /// `[redis]`
    pub redis: RedisConfig,
    /// `[etcd]`
    pub etcd: EtcdConfig,
    /// `[admin]`
    pub admin: AdminConfig,
    /// `[log]`
    pub log: LogConfig,
    /// `[shutdown]`
    pub shutdown: ShutdownConfig,
    /// `[spool]`
    pub spool: SpoolConfig,
    /// `[timer]`
    pub timer: TimerConfig,
    /// `[compensator]`
    pub compensator: CompensatorConfig,
    /// `[forwarder]`
    pub forwarder: ForwarderConfig,
    /// `[sinks.NAME]`
    pub sinks: BTreeMap<String, SinkConfig>,
    /// `[[routes]]`
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<RouteConfig>,
}

// === impl WholeConfig ===

impl WholeConfig {
    /// The sections that make a forwarder, and where they are written.
    pub fn forwarding(&self, places: Places) -> Settings {
        Settings {
            forwarder: self.forwarder.clone(),
            sinks: self.sinks.clone(),
            routes: self.routes.clone(),
            places,
        }
    }
}

impl Section for WholeConfig {
    fn validate(&self, at: &mut Faults) {
        at.section("deployment", &self.deployment);
        at.section("redis", &self.redis);
        at.section("etcd", &self.etcd);
        at.section("admin", &self.admin);
        at.section("log", &self.log);
        at.section("shutdown", &self.shutdown);
        at.section("spool", &self.spool);
        at.section("timer", &self.timer);
        at.section("compensator", &self.compensator);
        self.forwarding(Places::default()).validate(&self.etcd, at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_file_holds_every_key_with_its_default() {
        let sample = include_str!("../../../config/delayq.toml");
        delayq_service::config::check_sample::<WholeConfig>(sample).unwrap();
    }
}
