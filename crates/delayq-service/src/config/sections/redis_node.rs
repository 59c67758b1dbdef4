//! `[[redis.nodes]]`: several Redises that keep a deployment together.

use crate::config::RedisUrl;
use delayq::LinkSettings;
use delayq::protocol::{NodeName, NodeSettings, ShardRanges};
use serde::{Deserialize, Serialize};

/// `[[redis.nodes]]`: one of several independent Redises, and the shards that it keeps. Login, certificates and times are
/// those of `[redis]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RedisNodeConfig {
    /// What it is called: 1 to 32 of `A-Z a-z 0-9 - _`. Every shard records the name of its node, and refuses a call that
    /// is meant for another one.
    pub name: NodeName,
    /// Where it is, as `redis.url` says it; by Sentinel, too. Not a Redis Cluster.
    pub url: RedisUrl,
    /// Its shards, as ranges with both ends: `0-7,16-19`. All nodes together have every shard from 0 on, once. Shards of a growth
    /// that is to come may be among them. Unset: none yet; what a shard records says more.
    #[serde(default, skip_serializing_if = "ShardRanges::is_empty")]
    pub shards: ShardRanges,
}

// === impl RedisNodeConfig ===

impl RedisNodeConfig {
    /// The node, with this connection.
    #[must_use]
    pub fn settings(&self, link: impl Into<LinkSettings>) -> NodeSettings {
        NodeSettings { name: self.name.clone(), shards: self.shards.clone(), link: link.into() }
    }
}
