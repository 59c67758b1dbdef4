//! A large shard that moves, and nodes that come and go, under a steady load.

use crate::redis_cluster::scene::{SHARDS, elsewhere, message, slot, stored};
use crate::redis_cluster::steady::{Accepted, Steady};
use delayq::{Admin, Group, Producer, ProducerOptions, ShardCount};
use delayq_tests::deadline::{LONG, wait_until};
use delayq_tests::deployment::{created, settings};
use delayq_tests::redis_cluster::RedisCluster;
use std::collections::BTreeSet;
use std::time::Instant;

/// In one bucket of one shard.
const MANY: usize = 100_000;
const A_CALL: usize = 5_000;

async fn fill(producer: &Producer) -> BTreeSet<String> {
    let shards = ShardCount::new(SHARDS).unwrap();
    let mut names = (0..).map(|n| format!("group-{n}"));
    let group = Group::new(names.find(|name| shards.shard_of_name(name).get() == 0).unwrap()).unwrap();
    let ids: Vec<String> = (0..MANY).map(|n| format!("many-{n}")).collect();
    for some in ids.chunks(A_CALL) {
        let messages = some.iter().map(|id| message(id).with_group(group.clone())).collect();
        for put in producer.put_many(messages).await {
            assert!(put.unwrap().outcome.is_accepted());
        }
    }
    ids.into_iter().collect()
}

async fn check(cluster: &RedisCluster, admin: &Admin, expected: &BTreeSet<String>) {
    let found = stored(cluster).await;
    let lost: Vec<&String> = expected.iter().filter(|id| !found.contains_key(*id)).collect();
    assert!(lost.is_empty(), "{} lost, such as {}", lost.len(), lost[0]);
    assert_eq!(found.len(), expected.len(), "more is stored than was accepted");
    assert!(found.values().all(|&count| count == 1), "some are stored at two nodes");
    let audit = admin.audit().run(|_| {}).await.unwrap();
    assert!(audit.findings.is_empty() && audit.drifts.is_empty(), "{audit:?}");
}

fn tell(what: &str, began: Instant, accepted: &Accepted) {
    println!("{what} in {:.1} s under {}", began.elapsed().as_secs_f64(), accepted.summary());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_of_a_hundred_thousand_that_moves_there_and_back_under_load_loses_and_doubles_nothing() {
    let cluster = RedisCluster::start().await;
    let (client, admin, producer) = created(settings(cluster.url(), SHARDS)).await;
    let mut expected = fill(&producer).await;
    let load = Steady::start(Producer::start(client.apart(), ProducerOptions::default()));
    let began = Instant::now();
    for _ in 0..2 {
        cluster.move_slot(slot(0), elsewhere(&cluster, 0).await).await;
    }
    let mut accepted = load.end().await;
    tell("moved there and back", began, &accepted);
    expected.append(&mut accepted.ids);
    check(&cluster, &admin, &expected).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_added_given_all_slots_of_another_and_emptied_again_under_load_loses_nothing() {
    let mut cluster = RedisCluster::start().await;
    let (_, admin, producer) = created(settings(cluster.url(), SHARDS)).await;
    let load = Steady::start(producer);
    let began = Instant::now();
    cluster.add_two().await;
    let emptied = cluster.master_of(slot(0)).await;
    // Otherwise the node becomes a replica of the node that has its slots, and takes none.
    let stay = ["CONFIG", "SET", "cluster-allow-replica-migration", "no"];
    cluster.nodes[emptied].command::<()>(&stay).await;
    let moved = cluster.empty(emptied, 3).await;
    for shard in 0..SHARDS {
        assert_ne!(cluster.master_of(slot(shard)).await, emptied, "shard {shard}");
    }
    assert_eq!(cluster.empty(3, emptied).await, moved);
    cluster.remove(3).await;
    let accepted = load.end().await;
    tell(&format!("{moved} slots moved to a new node and back"), began, &accepted);
    // The map names a node without shards until the next request for the map: at the first call in vain, or
    // each 20 seconds.
    let is_forgotten = async || match admin.nodes().check().await {
        Ok(nodes) => nodes.len() == 3,
        Err(error) => {
            assert!(error.is_outage(), "{error}");
            false
        }
    };
    wait_until("the removed node to be forgotten", LONG, is_forgotten).await;
    check(&cluster, &admin, &accepted.ids).await;
}
