//! Timers that do not reach, or do not know, one of several Redises: timers with a connection get its shards.

use crate::bounds::CUT_FROM_NODE;
use crate::fleet::TIMES;
use crate::stand::{Running, polling, read, start};
use delayq::{Admin, Client, Message, Producer, Settings, ShardCount, Topic, UnixMillis};
use delayq_cluster::{ClusterConfig, EtcdConfig};
use delayq_service::config::DeploymentConfig;
use delayq_tests::deadline::{LONG, wait_until};
use delayq_tests::deployment::created;
use delayq_tests::etcd_server::EtcdCluster;
use delayq_tests::proxy::{Flow, Proxy};
use delayq_tests::redis_nodes::{RedisNodes, settings};
use delayq_tests::stall::Stall;
use delayq_tests::timing::{Timing, conclusive};
use delayq_timer::Membership;
use std::ops::Range;
use std::time::Duration;

const NEW: usize = 2;
/// Time for which messages become due during the cut, one in 50 ms.
const CUT_FOR_MS: u64 = 12_000;

struct Scene {
    nodes: RedisNodes,
    etcd: EtcdCluster,
}

// === impl Scene ===

impl Scene {
    async fn new() -> Self {
        Self { nodes: RedisNodes::start(4).await, etcd: EtcdCluster::start_one().await }
    }

    async fn timer(&self, name: &str, mut nodes: Settings) -> Running {
        nodes.link = nodes.link.deadline(TIMES.call).connect_timeout(TIMES.call);
        let client = Client::new(nodes);
        let etcd =
            EtcdConfig { lease_ttl: TIMES.lease.into(), ..EtcdConfig::at(self.etcd.endpoints()).unwrap() };
        let deployment = DeploymentConfig { shards: client.shards(), ..DeploymentConfig::default() };
        let cluster = ClusterConfig::new(&etcd, &deployment, name);
        start(polling(TIMES.poll), client, Membership::Etcd(Box::new(cluster))).await.unwrap()
    }

    /// A proxy before each node, and the settings that lead through them.
    fn proxies(&self) -> (Vec<Proxy>, Settings) {
        let (mut proxies, mut rows) = (Vec::new(), self.nodes.rows());
        for (row, server) in rows.iter_mut().zip(&self.nodes.servers) {
            let proxy = Proxy::start_for_redis(&server.address());
            row[1] = server.url_through(&proxy.address());
            proxies.push(proxy);
        }
        (proxies, settings(&rows, self.nodes.shards()))
    }

    fn pumped(&self, node: usize, timer: &Running) -> usize {
        let text = timer.metrics.encode();
        let pumps = |shard: &u16| text.contains(&format!("delayq_timer_epoch{{shard=\"{shard}\"}}"));
        self.nodes.shards_of(node).filter(pumps).count()
    }

    /// Puts messages due in each 50 ms of this time; returns the maximum lateness.
    async fn lateness(&self, node: usize, due: Range<u64>, producer: &Producer) -> Duration {
        let count = ShardCount::new(self.nodes.shards()).unwrap();
        let at_node = |id: &String| self.nodes.shards_of(node).contains(&count.shard_of_name(id).get());
        let message = |due: u64| {
            let id = (0..).map(|n| format!("{due}-{n}")).find(at_node).unwrap();
            Message::new(Topic::new("notices").unwrap(), "x").at(UnixMillis::new(due)).id(id).unwrap()
        };
        let messages: Vec<Message> = due.step_by(50).map(message).collect();
        let puts = messages.len();
        for put in producer.put_many(messages).await {
            assert!(put.unwrap().outcome.is_accepted());
        }
        wait_until("all to be ready", LONG, async || self.ready(node).await.len() >= puts).await;
        self.ready(node).await.into_iter().max().unwrap()
    }

    async fn ready(&self, node: usize) -> Vec<Duration> {
        let mut late = Vec::new();
        for shard in self.nodes.shards_of(node) {
            let key = format!("{{dq:{shard}}}:r:1");
            let entries: Vec<Vec<u8>> = self.nodes.servers[node].command(&["LRANGE", &key, "0", "-1"]).await;
            late.extend(entries.iter().map(|entry| Duration::from_micros(read(entry).late_us())));
        }
        late
    }

    async fn shared(&self, timers: &[&Running]) {
        let (shards, parts) = (self.nodes.shards(), timers.len() as u16);
        wait_until("the shards to be shared", LONG, async || {
            let owned = timers.iter().map(|timer| timer.metric("delayq_timer_shards") as u16);
            owned.clone().sum::<u16>() == shards && owned.max() <= Some(shards.div_ceil(parts))
        })
        .await;
    }
}

async fn one_is_cut_off(timers: usize, leader: bool) -> Timing {
    let scene = Scene::new().await;
    let (_, _, producer) = created(scene.nodes.settings()).await;
    let ((proxies, through), first) = (scene.proxies(), usize::from(!leader));
    let mut running = Vec::new();
    for n in 0..timers {
        let nodes = if n == first { through.clone() } else { scene.nodes.settings() };
        running.push(scene.timer(&format!("timer-{n}"), nodes).await);
        running[0].reaches("delayq_timer_leader", 1.0).await;
    }
    scene.shared(&running.iter().collect::<Vec<_>>()).await;
    let cut = running.remove(first);
    // Which shards a timer gets depends on the times at which the others join.
    let node = (0..proxies.len()).max_by_key(|&node| scene.pumped(node, &cut)).unwrap();
    assert!(scene.pumped(node, &cut) > 0, "the timer that is cut off has shards");
    let stall = Stall::watch();
    proxies[node].set_both(Flow::Hold);
    let now = scene.nodes.servers[node].now_ms().await;
    let late = scene.lateness(node, now + 200..now + CUT_FOR_MS, &producer).await;
    println!("{timers} timers, the leader cut off from one node: {leader}: late by {late:?} at most");
    cut.reaches("delayq_timer_hindered", 1.0).await;
    cut.reaches("delayq_timer_oldest_overdue_seconds", 0.0).await;
    proxies[node].mend().await;
    cut.reaches("delayq_timer_hindered", 0.0).await;
    cut.is_ready().await;
    scene.shared(&running.iter().chain([&cut]).collect::<Vec<_>>()).await;
    for timer in running.into_iter().chain([cut]) {
        timer.stop().await;
    }
    stall.judge(CUT_FROM_NODE.fault, late, CUT_FROM_NODE.late(TIMES))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_cut_off_from_one_of_several_nodes_keeps_its_shards_from_no_timer_that_reaches_them() {
    for timers in [2, 4, 6, 12] {
        conclusive(async || one_is_cut_off(timers, true).await).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_cut_off_from_one_of_several_nodes_lets_timers_that_reach_the_node_have_its_shards() {
    for timers in [2, 4] {
        conclusive(async || one_is_cut_off(timers, false).await).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_with_an_outdated_node_map_lets_a_timer_that_knows_the_node_have_its_shards() {
    let scene = Scene::new().await;
    let (rows, shards) = (scene.nodes.rows(), scene.nodes.shards());
    let old = settings(&rows[..NEW], scene.nodes.shards_of(NEW).start);
    let _ = created(old.clone()).await;
    let outdated = scene.timer("outdated", old).await;
    outdated.owns(scene.nodes.shards_of(NEW).start).await;
    let prepared = Admin::new(Client::new(settings(&rows, scene.nodes.shards_of(NEW).start)));
    prepared.shards().grow(ShardCount::new(shards).unwrap(), |_| ()).await.unwrap();
    outdated.reaches("delayq_timer_hindered", 1.0).await;
    let current = scene.timer("current", scene.nodes.settings()).await;
    current.is_ready().await;
    scene.shared(&[&outdated, &current]).await;
    assert_eq!(scene.pumped(NEW, &current), scene.nodes.shards_of(NEW).len(), "it alone knows the node");
    outdated.stop().await;
    current.owns(shards).await;
    current.stop().await;
}
