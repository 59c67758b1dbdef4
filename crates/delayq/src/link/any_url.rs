//! The URL of a Redis, whatever keeps it: one grammar for all that read one.

use super::cluster_url::ClusterUrl;
use super::sentinel_url::SentinelUrl;
use super::single_url::SingleUrl;
use std::str::FromStr;

/// The URL of a Redis: of a single one, of one that sentinels name, or of a Redis Cluster.
#[derive(Clone)]
pub enum AnyUrl {
    /// A single Redis.
    Single(SingleUrl),
    /// One that sentinels name.
    Sentinel(SentinelUrl),
    /// A Redis Cluster.
    Cluster(ClusterUrl),
}

// === impl AnyUrl ===

impl FromStr for AnyUrl {
    type Err = String;

    /// Refuses by name what is wrong, without the user and the password.
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
