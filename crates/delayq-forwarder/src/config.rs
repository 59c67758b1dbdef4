//! The configuration of the process `delayq-forwarder`: its own three sections, and those that every process has.

mod forwarder;
mod route;
mod settings;

pub use forwarder::{ForwarderConfig, Sharing};
pub use route::RouteConfig;
pub(crate) use route::partition;
pub use settings::Settings;

use crate::sinks::SinkConfig;
use delayq_service::{
    ServiceConfig,
    config::{
        AdminConfig, DeploymentConfig, EtcdConfig, Faults, LogConfig, Places, RedisConfig, Section,
        ShutdownConfig,
    },
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The whole configuration of `delayq-forwarder`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
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
    /// `[forwarder]`
    pub forwarder: ForwarderConfig,
    /// `[sinks.NAME]`
    pub sinks: BTreeMap<String, SinkConfig>,
    /// `[[routes]]`
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<RouteConfig>,
}

// === impl Config ===

impl Config {
    /// The sections of the forwarder itself.
    #[must_use]
    pub fn settings(&self) -> Settings {
        Settings {
            forwarder: self.forwarder.clone(),
            sinks: self.sinks.clone(),
            routes: self.routes.clone(),
            places: Places::default(),
        }
    }
}

impl Section for Config {
    fn validate(&self, at: &mut Faults) {
        at.section("deployment", &self.deployment);
        at.section("redis", &self.redis);
        at.section("etcd", &self.etcd);
        at.section("admin", &self.admin);
        at.section("log", &self.log);
        at.section("shutdown", &self.shutdown);
        self.settings().validate(&self.etcd, at);
    }
}

impl ServiceConfig for Config {
    fn log(&self) -> &LogConfig {
        &self.log
    }

    fn admin(&self) -> &AdminConfig {
        &self.admin
    }

    fn shutdown(&self) -> &ShutdownConfig {
        &self.shutdown
    }
}

#[cfg(test)]
mod tests;
