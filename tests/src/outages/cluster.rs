//! Outages of the masters of a Redis Cluster.

use super::Scene;
use crate::redis_cluster::RedisCluster;
use crate::redis_server::RedisServer;
use delayq::Namespace;
use delayq::protocol::{Keys, ShardId};
use std::time::{Duration, Instant};
use tokio::sync::Mutex;
use tokio::time::sleep;

/// An outage of a cluster.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// `CLUSTER FAILOVER` of this kind.
    Ordered(Option<&'static str>),
    /// A master is killed, and its replica takes over.
    Killed,
    /// A master is frozen and resumed; its replica takes over if that lasts.
    Frozen,
    /// Every connection to every node is reset.
    Reset,
    /// All nodes are frozen at once.
    AllFrozen,
}

/// Three masters with one replica each.
#[derive(Debug)]
pub struct ClusterScene {
    cluster: Mutex<RedisCluster>,
    url: String,
}

// === impl ClusterScene ===

impl Scene for ClusterScene {
    type Kind = Kind;
    const NAME: &'static str = "cluster";
    const KINDS: &'static [Kind] = &[
        Kind::Reset,
        Kind::Ordered(None),
        Kind::Frozen,
        Kind::Killed,
        Kind::Ordered(Some("FORCE")),
        Kind::AllFrozen,
        Kind::Ordered(Some("TAKEOVER")),
    ];
    const OF_CLIENTS: &'static [Kind] = &[Kind::Reset, Kind::Killed, Kind::Frozen, Kind::Ordered(None)];
    const SHARDS: u16 = 6;
    const LOSES: bool = true;

    async fn start() -> Self {
        let cluster = RedisCluster::with_replicas().await;
        Self { url: cluster.url(), cluster: Mutex::new(cluster) }
    }

    fn url(&self) -> String {
        self.url.clone()
    }

    async fn outage(&self, kind: Kind, lasts: Duration) -> Instant {
        let mut cluster = self.cluster.lock().await;
        let slot = Keys::new(Namespace::default()).slot(ShardId::new(fastrand::u16(..Self::SHARDS)));
        let victim = cluster.master_of(slot).await;
        match kind {
            Kind::Ordered(kind) => _ = cluster.fail_over(slot, kind).await,
            Kind::Killed => {
                cluster.nodes[victim].kill().await;
                cluster.take_over(victim, slot).await;
            }
            Kind::Frozen => {
                cluster.nodes[victim].freeze();
                sleep(lasts).await;
                cluster.nodes[victim].thaw();
            }
            Kind::AllFrozen => {
                cluster.nodes.iter().for_each(RedisServer::freeze);
                sleep(lasts).await;
                cluster.nodes.iter().for_each(RedisServer::thaw);
                // After a long freeze, nodes first take each other for dead.
                cluster.settled().await;
            }
            Kind::Reset => {
                for node in &cluster.nodes {
                    for of in ["normal", "pubsub"] {
                        node.command::<()>(&["CLIENT", "KILL", "TYPE", of]).await;
                    }
                }
            }
        }
        Instant::now()
    }

    async fn mend(&self) {
        let mut cluster = self.cluster.lock().await;
        for node in &mut cluster.nodes {
            node.resume().await;
            node.thaw();
        }
        cluster.settled().await;
    }
}
