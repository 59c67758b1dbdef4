//! Both nodes of a third of the slots die, and all nodes of a cluster with files restart in turn.

use crate::failovers::load::Load;
use crate::failovers::stream::{SHARDS, Stream, slot};
use delayq_tests::deadline::{LONG, wait_until};
use delayq_tests::deployment::{created, settings};
use delayq_tests::redis_cluster::RedisCluster;
use delayq_tests::redis_server::RedisOptions;
use delayq_tests::stall::Stall;
use delayq_tests::timing::{Timing, conclusive};
use std::time::{Duration, Instant};

/// Maximum time until messages flow again once their node takes writes, and maximum lateness of the other
/// nodes' messages.
const BOUND: Duration = Duration::from_secs(3);
const A_SHARD: usize = 100;

async fn cluster() -> RedisCluster {
    RedisCluster::with_replicas_of(RedisOptions::default().append_only("everysec")).await
}

async fn shards_of(cluster: &RedisCluster, node: usize) -> (Vec<u16>, Vec<u16>) {
    let (mut its, mut others) = (Vec::new(), Vec::new());
    for shard in 0..SHARDS {
        let whose = if cluster.master_of(slot(shard)).await == node { &mut its } else { &mut others };
        whose.push(shard);
    }
    (its, others)
}

async fn serves(cluster: &RedisCluster, node: usize) -> Instant {
    wait_until("the node to take writes", LONG, async || {
        let info: String = cluster.nodes[node].try_command(&["CLUSTER", "INFO"]).await.unwrap_or_default();
        info.contains("cluster_state:ok")
    })
    .await;
    Instant::now()
}

async fn a_master_dies_with_its_replica() -> Timing {
    let (mut cluster, stall) = (cluster().await, Stall::watch());
    let (client, admin, producer) = created(settings(cluster.url(), SHARDS)).await;
    let (stream, load) = (Stream::start(&client, &producer), Load::start(&producer));
    let master = cluster.master_of(slot(0)).await;
    let (theirs, others) = shards_of(&cluster, master).await;
    let replica = (master + 3) % 6;
    let all: Vec<u16> = (0..SHARDS).collect();
    stream.flows_after(Instant::now(), &all).await;

    let died = Instant::now();
    cluster.nodes[replica].kill().await;
    cluster.nodes[master].kill().await;
    let before: Vec<usize> = others.iter().map(|shard| stream.delivered(*shard)).collect();
    wait_until("messages of the others, and errors", LONG, async || {
        let flow = others.iter().zip(&before).all(|(shard, n)| stream.delivered(*shard) >= n + A_SHARD);
        flow && theirs.iter().all(|shard| !stream.errors(*shard).is_empty())
    })
    .await;
    let (away, address) = (Instant::now(), cluster.nodes[master].address());
    for shard in &theirs {
        let errors = stream.errors(*shard);
        assert!(errors.iter().any(|error| error.contains(&address)), "shard {shard}: {errors:?}");
    }
    for shard in &others {
        assert_eq!(stream.errors(*shard), Vec::<String>::new(), "shard {shard}");
    }
    let late = others.iter().map(|shard| stream.latest(*shard, died, away)).max().unwrap_or_default();

    cluster.nodes[master].resume().await;
    cluster.nodes[replica].resume().await;
    let back = serves(&cluster, master).await;
    let again = stream.flows_after(back, &theirs).await.duration_since(back);
    let answers = load.stop().await;
    let (put, errors) = stream.stop(&admin).await;
    println!(
        "{put} messages, {errors} errors of the dead nodes' shards; the others at most {late:.1?} late; first messages \
         {again:.1?} after the node was back"
    );
    answers.hold(&admin).await;
    let timing = stall.judge("a message of a shard of another node", late, BOUND);
    timing.and(stall.judge("the first messages of the shards that were away", again, BOUND))
}

async fn every_node_is_restarted() -> Timing {
    let (mut cluster, stall) = (cluster().await, Stall::watch());
    let (client, admin, producer) = created(settings(cluster.url(), SHARDS)).await;
    let (stream, load) = (Stream::start(&client, &producer), Load::start(&producer));
    let all: Vec<u16> = (0..SHARDS).collect();
    stream.flows_after(Instant::now(), &all).await;
    let (mut timing, mut slowest) = (Timing::Kept, Duration::ZERO);
    for node in 0..cluster.nodes.len() {
        assert!(cluster.nodes[node].stop().await.success());
        cluster.nodes[node].resume().await;
        cluster.settled().await;
        let back = serves(&cluster, node).await;
        let again = stream.flows_after(back, &all).await.duration_since(back);
        slowest = slowest.max(again);
        timing = timing.and(stall.judge("messages after a restart", again, BOUND));
        cluster.replicated().await;
    }
    let answers = load.stop().await;
    let (put, errors) = stream.stop(&admin).await;
    println!(
        "{put} messages and {} puts answered, {errors} and {} calls in vain; first messages {slowest:.1?} after a node was \
         back at most",
        answers.put.len(),
        answers.not_applied + answers.unknown,
    );
    answers.hold(&admin).await;
    timing
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_killed_with_its_replica_stops_its_shards_alone_and_both_come_back_with_everything() {
    conclusive(a_master_dies_with_its_replica).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_restart_of_every_node_under_load_loses_nothing() {
    conclusive(every_node_is_restarted).await;
}
