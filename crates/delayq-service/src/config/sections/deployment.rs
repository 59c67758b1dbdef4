//! `[deployment]`: which delayq this is.

use serde::{Deserialize, Serialize};

use crate::config::{Faults, Section};

/// `[deployment]`: what every process of one deployment must agree on. Redis records it and refuses another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DeploymentConfig {
    /// First part of every key in Redis, so that deployments can share one. 1 to 32 of `a-z 0-9 - _`; default `dq`.
    /// Another name is another, empty deployment.
    pub namespace: String,
    /// Number of shards a deployment is created with. 1 to 4096; default 16. More than timers × cores is enough; each
    /// costs a few keys and a look every five seconds. Once there are more (`delayq shards grow`), Redis knows, and
    /// the new number and every earlier one is right here.
    pub shards: u16,
}

// === impl DeploymentConfig ===

impl DeploymentConfig {
    /// The default of `namespace`.
    pub const NAMESPACE: &str = "dq";
    /// The longest namespace, in bytes: it is part of every key.
    pub const NAMESPACE_MAX_BYTES: usize = 32;
    /// The default of `shards`.
    pub const SHARDS: u16 = 16;
    /// The most shards: a generated id has 12 bits for its shard.
    pub const SHARDS_MAX: u16 = 4096;
}

impl Default for DeploymentConfig {
    fn default() -> Self {
        Self { namespace: Self::NAMESPACE.to_owned(), shards: Self::SHARDS }
    }
}

impl Section for DeploymentConfig {
    fn validate(&self, at: &mut Faults) {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c);
        let length = 1..=Self::NAMESPACE_MAX_BYTES;
        if !length.contains(&self.namespace.len()) || !self.namespace.chars().all(plain) {
            at.refuse("namespace", "expected 1 to 32 characters of a-z, 0-9, - and _");
        }
        at.range("shards", &self.shards, 1..=Self::SHARDS_MAX);
    }
}
