//! `[deployment]`: which delayq this is.

use super::redis::RedisConfig;
use crate::config::{Faults, Section};
use delayq::{Namespace, ShardCount};
use serde::{Deserialize, Serialize};

/// `[deployment]`: what every process of one deployment must agree on. Redis records it and refuses another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DeploymentConfig {
    /// First part of every key in Redis, so that several deployments can share one. 1 to 32 of `A-Z a-z 0-9 - _`; default `dq`.
    /// Another name is another, empty deployment.
    pub namespace: Namespace,
    /// Number of shards that a deployment is created with. 1 to 4096; default 1. One Redis needs one, several need one each, a
    /// Redis Cluster 16 for each master, and timers that are to share the work one each: with more, fewer messages share a
    /// call. Each costs a few keys and a poll every six seconds. After `delayq shards grow` the new number and every earlier
    /// one are valid here.
    pub shards: ShardCount,
}

// === impl DeploymentConfig ===

impl DeploymentConfig {
    /// Refuses shards of which several Redises have none.
    pub fn contradictions(&self, redis: &RedisConfig, at: &mut Faults) {
        if let Some(why) = self.beyond_nodes(redis) {
            at.refuse("deployment.shards", why);
        }
    }

    /// Why the shards are too many for the nodes, if they are.
    pub(crate) fn beyond_nodes(&self, redis: &RedisConfig) -> Option<String> {
        let shards = redis.shards_of_nodes().filter(|&shards| shards < self.shards.get().into())?;
        Some(format!("{}, and only {shards} have a node in redis.nodes", self.shards))
    }
}

impl Section for DeploymentConfig {}
