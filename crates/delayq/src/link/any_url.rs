//! The URL of a Redis of any shape. All readers share one grammar.

use super::cluster_url::ClusterUrl;
use super::sentinel_url::SentinelUrl;
use super::single_url::SingleUrl;
use std::str::FromStr;

/// The URL of a single Redis, of a Redis with sentinels, or of a Redis Cluster.
#[derive(Clone)]
pub enum AnyUrl {
    /// A single Redis.
    Single(SingleUrl),
    /// A Redis whose sentinels name the master.
    Sentinel(SentinelUrl),
    /// A Redis Cluster.
    Cluster(ClusterUrl),
}

// === impl AnyUrl ===

impl FromStr for AnyUrl {
    type Err = String;

    /// Names each fault without repeating the user or the password.
    fn from_str(text: &str) -> Result<Self, String> {
        if ClusterUrl::is_meant_by(text) {
            text.parse().map(Self::Cluster)
        } else if SentinelUrl::is_meant_by(text) {
            text.parse().map(Self::Sentinel)
        } else {
            text.parse().map(Self::Single)
        }
    }
}
