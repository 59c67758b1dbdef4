//! `[[redis.nodes]]`: several Redises of one deployment.

use crate::config::RedisUrl;
use delayq::LinkSettings;
use delayq::protocol::{NodeName, NodeSettings, ShardRanges};
use serde::{Deserialize, Serialize};

/// `[[redis.nodes]]`: one of several independent Redises, with its shards. Login, certificates and deadlines come from
/// `[redis]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RedisNodeConfig {
    /// The node's name: 1 to 32 of `A-Z a-z 0-9 - _`. Every shard records the name of its node, and refuses a call
    /// meant for another node.
    pub name: NodeName,
    /// The address, in the form of `redis.url`, including Sentinel. Not a Redis Cluster.
    pub url: RedisUrl,
    /// The node's shards, as inclusive ranges: `0-7,16-19`. All nodes together must cover every shard from 0 on exactly
    /// once. Shards of a later growth may be included. Unset: no shards yet; the records of shards in Redis take
    /// precedence.
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
