//! A timer that does not reach one master of a Redis Cluster: timers with a connection get its shards.

use crate::bounds::CUT_FROM_NODE;
use crate::fleet::TIMES;
use crate::stand::{Running, polling, read, start};
use delayq::protocol::{Keys, ShardId};
use delayq::{Admin, Client, Message, Namespace, Producer, Settings, ShardCount, Topic, UnixMillis};
use delayq_cluster::{ClusterConfig, EtcdConfig};
use delayq_service::config::DeploymentConfig;
use delayq_tests::binary::Binary;
use delayq_tests::deadline::{LONG, SHORT, wait_for, wait_until};
use delayq_tests::deployment::{created, settings};
use delayq_tests::etcd_server::EtcdCluster;
use delayq_tests::process::{Process, Signal};
use delayq_tests::proxy::Proxy;
use delayq_tests::redis_cluster::RedisCluster;
use delayq_tests::stall::Stall;
use delayq_tests::timing::{Timing, conclusive};
use delayq_timer::Membership;
use std::ops::Range;
use std::time::Duration;

const SHARDS: u16 = 12;
/// Time for which messages become due during the cut, one in 50 ms.
const CUT_FOR_MS: u64 = 12_000;

/// A cluster whose masters announce the proxies in front of them, and an etcd.
struct Scene {
    cluster: RedisCluster,
    proxies: Vec<Proxy>,
    masters: Vec<usize>,
    etcd: EtcdCluster,
    admin: Admin,
    producer: Producer,
}

// === impl Scene ===

impl Scene {
    async fn new() -> Self {
        let cluster = RedisCluster::start().await;
        let keys = Keys::new(Namespace::default());
        let mut masters = Vec::new();
        for shard in 0..SHARDS {
            masters.push(cluster.master_of(keys.slot(ShardId::new(shard))).await);
        }
        let proxies: Vec<Proxy> = cluster.nodes.iter().map(|node| Proxy::start(&node.address())).collect();
        for (node, proxy) in cluster.nodes.iter().zip(&proxies) {
            let address = proxy.address();
            let port = address.rsplit(':').next().unwrap();
            node.command::<()>(&["CONFIG", "SET", "cluster-announce-port", port]).await;
        }
        wait_until("all masters to know the proxies", LONG, async || {
            for node in &cluster.nodes {
                let known: String = node.command(&["CLUSTER", "NODES"]).await;
                if !proxies.iter().all(|proxy| known.contains(&format!(" {}@", proxy.address()))) {
                    return false;
                }
            }
            true
        })
        .await;
        let (_, admin, producer) = created(settings(url(&proxies), SHARDS)).await;
        Self { cluster, proxies, masters, etcd: EtcdCluster::start_one().await, admin, producer }
    }

    async fn timer(&self, name: &str) -> Running {
        let mut settings: Settings = settings(url(&self.proxies), SHARDS);
        settings.link = settings.link.deadline(TIMES.call).connect_timeout(TIMES.call);
        let client = Client::new(settings);
        let etcd =
            EtcdConfig { lease_ttl: TIMES.lease.into(), ..EtcdConfig::at(self.etcd.endpoints()).unwrap() };
        let deployment = DeploymentConfig { shards: client.shards(), ..DeploymentConfig::default() };
        let cluster = ClusterConfig::new(&etcd, &deployment, name);
        start(polling(TIMES.poll), client, Membership::Etcd(Box::new(cluster))).await.unwrap()
    }

    /// A proxy can tell a process from the other timers.
    fn process(&self) -> Process {
        let ms = |time: Duration| format!("{}ms", time.as_millis());
        Binary::new("delayq-timer")
            .env("DELAYQ__REDIS__URL", url(&self.proxies))
            .env("DELAYQ__REDIS__CALL_DEADLINE", ms(TIMES.call))
            .env("DELAYQ__REDIS__CONNECT_TIMEOUT", ms(TIMES.call))
            .env("DELAYQ__DEPLOYMENT__SHARDS", SHARDS.to_string())
            .env("DELAYQ__ADMIN__LISTEN", "")
            .env("DELAYQ__TIMER__NAME", "cut")
            .env("DELAYQ__TIMER__POLL_INTERVAL", ms(TIMES.poll))
            .env("DELAYQ__ETCD__ENABLED", "true")
            .env("DELAYQ__ETCD__ENDPOINTS", format!("[\"{}\"]", self.etcd.endpoints().join("\", \"")))
            .env("DELAYQ__ETCD__LEASE_TTL", ms(TIMES.lease))
            .start()
    }

    /// The shards of this owner, by Redis; `None` while a master does not answer.
    async fn owned_by(&self, name: &str) -> Option<Vec<u16>> {
        let all: Vec<ShardId> = (0..SHARDS).map(ShardId::new).collect();
        let seen =
            self.admin.shards().overview_of(&all).await.into_iter().collect::<Result<Vec<_>, _>>().ok()?;
        let owners = (0..SHARDS).zip(seen);
        Some(owners.filter(|(_, seen)| seen.owner == name).map(|(shard, _)| shard).collect())
    }

    /// Each of the three timers has a third; returns the shards of the process.
    async fn shared(&self) -> Vec<u16> {
        wait_for("the shards to be shared", LONG, async || {
            for name in ["one", "other"] {
                self.owned_by(name).await.filter(|shards| shards.len() == usize::from(SHARDS / 3))?;
            }
            self.owned_by("cut").await.filter(|shards| shards.len() == usize::from(SHARDS / 3))
        })
        .await
    }

    /// Puts messages due in each 50 ms of this time into these shards of a master, and returns the maximum lateness.
    async fn lateness(&self, master: usize, shards: &[u16], due: Range<u64>) -> Duration {
        let count = ShardCount::new(SHARDS).unwrap();
        let is_there = |id: &String| shards.contains(&count.shard_of_name(id).get());
        let message = |due: u64| {
            let id = (0..).map(|n| format!("{due}-{n}")).find(is_there).unwrap();
            Message::new(Topic::new("notices").unwrap(), "x").at(UnixMillis::new(due)).id(id).unwrap()
        };
        let messages: Vec<Message> = due.step_by(50).map(message).collect();
        let puts = messages.len();
        for put in self.producer.put_many(messages).await {
            assert!(put.unwrap().outcome.is_accepted());
        }
        wait_for("all to be ready", LONG, async || {
            let mut late = Vec::new();
            for shard in shards {
                let words = ["LRANGE", &format!("{{dq:{shard}}}:r:1"), "0", "-1"];
                let entries: Vec<Vec<u8>> = self.cluster.nodes[master].command(&words).await;
                late.extend(entries.iter().map(|entry| Duration::from_micros(read(entry).late_us())));
            }
            (late.len() >= puts).then(|| late.into_iter().max().unwrap())
        })
        .await
    }
}

fn url(proxies: &[Proxy]) -> String {
    let nodes: Vec<String> = proxies.iter().map(Proxy::address).collect();
    format!("redis+cluster://{}", nodes.join(","))
}

async fn one_is_cut_off(leader: bool) -> Timing {
    let scene = Scene::new().await;
    let mut first = None;
    if !leader {
        let one = scene.timer("one").await;
        one.reaches("delayq_timer_leader", 1.0).await;
        first = Some(one);
    }
    let mut cut = scene.process();
    cut.wait_for_line("started", SHORT).await;
    let one = match first {
        Some(one) => one,
        None => scene.timer("one").await,
    };
    let other = scene.timer("other").await;
    let mine = scene.shared().await;
    let master = scene.masters[usize::from(mine[0])];
    let shards: Vec<u16> =
        mine.iter().copied().filter(|&shard| scene.masters[usize::from(shard)] == master).collect();
    let stall = Stall::watch();
    scene.proxies[master].bar(cut.id());
    let now = scene.cluster.nodes[master].now_ms().await;
    let late = scene.lateness(master, &shards, now + 200..now + CUT_FOR_MS).await;
    println!("the leader cut off from one master: {leader}: late by {late:?} at most");
    let still = wait_for("every master to say", LONG, async || scene.owned_by("cut").await).await;
    assert!(shards.iter().all(|shard| !still.contains(shard)), "{still:?} of {shards:?} are still its own");
    scene.proxies[master].mend().await;
    scene.shared().await;
    cut.ends_well_by(Signal::TERM, SHORT).await;
    one.stop().await;
    other.stop().await;
    stall.judge(CUT_FROM_NODE.fault, late, CUT_FROM_NODE.late(TIMES))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_cut_off_from_one_master_of_a_cluster_keeps_its_shards_from_no_timer_that_reaches_them() {
    conclusive(async || one_is_cut_off(true).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_cut_off_from_one_master_of_a_cluster_lets_timers_that_reach_it_have_its_shards() {
    conclusive(async || one_is_cut_off(false).await).await;
}
