//! The configuration of `delayq-forwarder`: three sections of its own, and the sections of every process.

mod forwarder;
mod route;
mod settings;

pub use forwarder::ForwarderConfig;
pub use route::RouteConfig;
pub(crate) use route::partition;
pub use settings::Settings;

use crate::sinks::SinkConfig;
use delayq_service::config::{DeploymentConfig, Locations, RedisConfig, TracesConfig};
use delayq_service::sections;
use std::collections::BTreeMap;

sections! {
    /// The whole configuration of `delayq-forwarder`.
    #[derive(PartialEq)]
    pub struct Config {
        /// `[deployment]`
        pub deployment: DeploymentConfig,
        /// `[redis]`
        pub redis: RedisConfig,
        /// `[traces]`
        pub traces: TracesConfig,
        /// `[forwarder]`
        pub forwarder: ForwarderConfig,
        /// `[sinks.NAME]`
        pub sinks: BTreeMap<String, SinkConfig>,
        /// `[[routes]]`
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub routes: Vec<RouteConfig>,
    } and |config, at| {
        config.deployment.contradictions(&config.redis, at);
        config.settings().contradictions(&config.redis, at);
    }
}

// === impl Config ===

impl Config {
    /// The sections specific to the forwarder.
    #[must_use]
    pub fn settings(&self) -> Settings {
        Settings {
            forwarder: self.forwarder.clone(),
            sinks: self.sinks.clone(),
            routes: self.routes.clone(),
            locations: Locations::default(),
        }
    }
}

#[cfg(test)]
mod tests;
