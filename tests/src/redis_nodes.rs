//! Three independent Redises that share one deployment.

use crate::redis_server::{RedisOptions, RedisServer};
use delayq::protocol::{NodeMap, NodeSettings, ShardRanges};
use delayq::{Settings, ShardCount};

/// The names of the nodes.
pub const NAMES: [&str; 3] = ["a", "b", "c"];

/// The nodes `a`, `b` and `c`, which keep their data over a kill.
#[derive(Debug)]
pub struct RedisNodes {
    /// In the order of their names.
    pub servers: Vec<RedisServer>,
    /// Shards per node; the first belong to `a`.
    each: u16,
}

// === impl RedisNodes ===

impl RedisNodes {
    /// Starts three Redises with this many shards each.
    pub async fn start(each: u16) -> Self {
        Self::start_with(each, RedisOptions::default()).await
    }

    /// As [`Self::start`], with these options.
    pub async fn start_with(each: u16, options: RedisOptions) -> Self {
        let mut servers = Vec::new();
        for _ in NAMES {
            servers.push(RedisServer::start_with(options.clone().append_only("always")).await);
        }
        Self { servers, each }
    }

    /// Number of shards.
    #[must_use]
    pub fn shards(&self) -> u16 {
        3 * self.each
    }

    /// The shards of a node.
    #[must_use]
    pub fn shards_of(&self, node: usize) -> std::ops::Range<u16> {
        let node = u16::try_from(node).expect("there are three");
        node * self.each..(node + 1) * self.each
    }

    /// Name, URL and shards of each node.
    #[must_use]
    pub fn rows(&self) -> Vec<[String; 3]> {
        let row = |(node, name): (usize, &str)| {
            let shards = self.shards_of(node);
            [name.to_owned(), self.servers[node].url(), format!("{}-{}", shards.start, shards.end - 1)]
        };
        NAMES.into_iter().enumerate().map(row).collect()
    }

    /// The settings of the deployment.
    #[must_use]
    pub fn settings(&self) -> Settings {
        settings(&self.rows(), self.shards())
    }

    /// The configuration section.
    #[must_use]
    pub fn section(&self) -> String {
        section(&self.rows())
    }
}

/// The settings of a deployment on nodes with these names, URLs and shards (empty: none).
#[must_use]
pub fn settings(rows: &[[String; 3]], shards: u16) -> Settings {
    let node = |[name, url, shards]: &[String; 3]| NodeSettings {
        name: name.parse().expect("a name"),
        shards: if shards.is_empty() { ShardRanges::default() } else { shards.parse().expect("shards") },
        link: url.as_str().into(),
    };
    let map = NodeMap::new(rows.iter().map(node).collect()).expect("a map");
    Settings::of_nodes(map).shards(ShardCount::new(shards).expect("a number of shards"))
}

/// The configuration section of nodes with these names, URLs and shards.
#[must_use]
pub fn section(rows: &[[String; 3]]) -> String {
    let node = |[name, url, shards]: &[String; 3]| {
        let shards = if shards.is_empty() { String::new() } else { format!("shards = '{shards}'\n") };
        format!("[[redis.nodes]]\nname = '{name}'\nurl = '{url}'\n{shards}")
    };
    rows.iter().map(node).collect()
}
