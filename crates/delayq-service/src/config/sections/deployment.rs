//! `[deployment]`: the identity of a deployment.

use super::redis::RedisConfig;
use crate::config::{Faults, Section};
use delayq::{Namespace, ShardCount};
use serde::{Deserialize, Serialize};

/// `[deployment]`: settings that every process of a deployment must share. Redis records them and refuses others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DeploymentConfig {
    /// First part of every key in Redis, so that several deployments can share a Redis. 1 to 32 of `A-Z a-z 0-9 - _`;
    /// default `dq`. A different name is a different, empty deployment.
    pub namespace: Namespace,
    /// Number of shards of a new deployment. 1 to 4096; default 1. A single Redis needs 1; several Redises, and timers
    /// that share the work, need 1 each; a Redis Cluster needs 16 per master. With more shards, fewer messages share a
    /// call. Each shard costs a few keys and a poll every six seconds. After `delayq shards grow` the new number and
    /// every earlier number are valid here.
    pub shards: ShardCount,
}

// === impl DeploymentConfig ===

impl DeploymentConfig {
    /// Refuses shards without a node.
    pub fn contradictions(&self, redis: &RedisConfig, at: &mut Faults) {
        if let Some(why) = self.beyond_nodes(redis) {
            at.refuse("deployment.shards", why);
        }
    }

    /// The reason if the nodes lack some of the shards.
    pub(crate) fn beyond_nodes(&self, redis: &RedisConfig) -> Option<String> {
        let shards = redis.shards_of_nodes().filter(|&shards| shards < self.shards.get().into())?;
        Some(format!("{}, but only {shards} have a node in redis.nodes", self.shards))
    }
}

impl Section for DeploymentConfig {}
