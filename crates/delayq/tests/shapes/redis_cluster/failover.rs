//! A replica takes over, by itself or by order.

use crate::redis_cluster::scene::{FAR, SHARDS, id_in, message, put_on, slot, stored, topic};
use delayq::PutOutcome;
use delayq_tests::deadline::{LONG, wait_until, within};
use delayq_tests::deployment::{created, settings};
use delayq_tests::redis_cluster::RedisCluster;
use delayq_tests::redis_server::replicated;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[tokio::test]
async fn a_master_that_became_a_replica_is_looked_for_and_not_called_unfit() {
    let cluster = RedisCluster::with_replicas().await;
    let (_, admin, _) = created(settings(cluster.url(), SHARDS)).await;
    admin.nodes().check().await.unwrap();
    let master = cluster.fail_over(slot(0), Some("FORCE")).await;
    wait_until("each master to be found", LONG, async || match admin.nodes().check().await {
        Ok(nodes) => nodes.iter().any(|node| node.address == cluster.nodes[master].address()),
        Err(error) => {
            assert!(error.is_outage(), "{error}");
            false
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_dies_stops_its_shards_alone_and_its_replica_takes_over() {
    let mut cluster = RedisCluster::with_replicas().await;
    let (_, _, producer) = created(settings(cluster.url(), SHARDS)).await;
    let victim = cluster.master_of(slot(0)).await;
    let mut theirs = Vec::new();
    for shard in 0..SHARDS {
        if cluster.master_of(slot(shard)).await == victim {
            theirs.push(shard);
        }
    }
    replicated(&cluster.nodes, victim).await;
    cluster.nodes[victim].kill().await;
    let one = |shard| id_in(shard, "x");
    for shard in (0..SHARDS).filter(|shard| !theirs.contains(shard)) {
        let put = producer.put(message(&one(shard))).await.unwrap();
        assert_eq!(put.outcome, PutOutcome::Stored(FAR), "shard {shard} has a master");
    }
    let master = cluster.take_over(victim, slot(0)).await;
    assert!(master >= 3, "a replica took over");
    for &shard in &theirs {
        let put = async || producer.put(message(&one(shard))).await.is_ok();
        wait_until("a put into a shard whose master died", LONG, put).await;
    }
    // The former master comes back as a replica, and gets no writes.
    cluster.nodes[victim].resume().await;
    wait_until("the former master to be a replica", LONG, async || {
        cluster.nodes[victim].field("role").await == "slave"
    })
    .await;
    for &shard in &theirs {
        let put = producer.put(message(&one(shard))).await.unwrap();
        assert!(matches!(put.outcome, PutOutcome::Exists(..)), "{:?}", put.outcome);
    }
    assert_eq!(stored(&cluster).await.len(), usize::from(SHARDS));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_kind_of_ordered_failover_is_followed_and_doubles_nothing() {
    let cluster = RedisCluster::with_replicas().await;
    let (client, admin, producer) = created(settings(cluster.url(), SHARDS)).await;
    let stop = Arc::new(AtomicBool::new(false));
    let load = tokio::spawn(put_on(producer, Arc::clone(&stop)));
    // FORCE and TAKEOVER do not wait for the replica to catch up: this test does not count their losses.
    for kind in [None, Some("FORCE"), Some("TAKEOVER")] {
        cluster.fail_over(slot(0), kind).await;
        let numbers = admin.topic(&topic()).count().await;
        assert!(numbers.is_ok(), "{kind:?}: {numbers:?}");
    }
    drop(client);
    stop.store(true, Ordering::Relaxed);
    let (accepted, refused) = within("the load to end", LONG, load).await.unwrap();
    let found = stored(&cluster).await;
    let lost: Vec<&String> = accepted.keys().filter(|id| !found.contains_key(*id)).collect();
    println!("{} accepted, {} lost, {} refused", accepted.len(), lost.len(), refused.len());
    assert!(accepted.len() > lost.len());
    assert!(found.values().all(|&count| count == 1));
}
