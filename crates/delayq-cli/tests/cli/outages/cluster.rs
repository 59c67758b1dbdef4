//! Outages of the masters of a Redis Cluster.

use super::{Outage, Run};
use delayq::Namespace;
use delayq::protocol::{Keys, ShardId};
use delayq_tests::deployment::settings;
use delayq_tests::redis_cluster::RedisCluster;
use delayq_tests::redis_server::RedisServer;
use std::time::Instant;
use tokio::sync::Mutex;
use tokio::time::sleep;

const SHARDS: u16 = 6;

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// `CLUSTER FAILOVER` of this kind.
    Ordered(Option<&'static str>),
    /// A master is killed, and its replica takes over.
    Killed,
    /// A master is frozen, and goes on; its replica takes over if that lasts.
    Frozen,
    /// Every connection to every node is reset.
    Reset,
    /// All nodes are frozen at once.
    AllFrozen,
}

const KINDS: [Kind; 7] = [
    Kind::Reset,
    Kind::Ordered(None),
    Kind::Frozen,
    Kind::Killed,
    Kind::Ordered(Some("FORCE")),
    Kind::AllFrozen,
    Kind::Ordered(Some("TAKEOVER")),
];

async fn outage(cluster: &mut RedisCluster, Outage { kind, lasts }: Outage<Kind>) -> Instant {
    let slot = Keys::new(Namespace::default()).slot(ShardId::new(fastrand::u16(..SHARDS)));
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
            // After long, each takes the others for dead at first.
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

async fn mend(cluster: &mut RedisCluster) {
    for node in &mut cluster.nodes {
        node.resume().await;
        node.thaw();
    }
    cluster.settled().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_goes_on_within_three_seconds_after_each_outage_of_a_cluster() {
    let cluster = RedisCluster::with_replicas().await;
    let redis = format!("[redis]\nurl = '{}'", cluster.url());
    let run = Run::start("cluster", &redis, settings(cluster.url(), SHARDS)).await;
    let cluster = Mutex::new(cluster);
    let outage = async |what| outage(&mut *cluster.lock().await, what).await;
    run.through(&KINDS, true, outage, async || mend(&mut *cluster.lock().await).await).await;
}
