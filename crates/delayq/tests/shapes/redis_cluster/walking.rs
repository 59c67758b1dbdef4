//! Walks over all messages while slots move.

use crate::redis_cluster::scene::{SHARDS, message, slot};
use delayq::admin::{Listed, WalkCursor};
use delayq::{Admin, Client, ShardCount};
use delayq_tests::deadline::{LONG, wait_until, within};
use delayq_tests::deployment::{created, settings};
use delayq_tests::redis_cluster::RedisCluster;
use std::collections::BTreeSet;
use std::sync::Mutex;

/// Enough messages that each node takes some steps.
const MESSAGES: usize = 3000;

async fn filled() -> (RedisCluster, Admin, Vec<String>) {
    let cluster = RedisCluster::start().await;
    let (_, admin, producer) = created(settings(cluster.url(), SHARDS)).await;
    let mut ids: Vec<String> = (0..MESSAGES).map(|n| format!("own-{n}")).collect();
    for put in producer.put_many(ids.iter().map(|id| message(id)).collect()).await {
        assert!(put.unwrap().outcome.is_accepted());
    }
    ids.sort_unstable();
    (cluster, admin, ids)
}

fn ids(messages: Vec<Listed>) -> impl Iterator<Item = String> {
    messages.into_iter().map(|message| message.id.to_string())
}

/// The index of the node, and one of its shards.
async fn at(cluster: &RedisCluster, address: &str) -> (usize, u16) {
    let node = cluster.nodes.iter().position(|node| node.address() == address).unwrap();
    for shard in 0..SHARDS {
        if cluster.master_of(slot(shard)).await == node {
            return (node, shard);
        }
    }
    panic!("{address} has no shard");
}

#[tokio::test]
async fn an_interrupted_walk_shows_every_message_of_every_node_once() {
    let (cluster, admin, expected) = filled().await;
    let mut shown = Vec::new();
    let (mut cursor, mut visited) = (None, BTreeSet::new());
    // Each step by another process, which may know the nodes in another order.
    for n in 0.. {
        let mut walk = match n {
            0 => admin.walk(None).await.unwrap(),
            _ => {
                let mut nodes: Vec<String> = cluster.nodes.iter().map(|node| node.address()).collect();
                nodes.rotate_left(n % 3);
                let client = Client::new(settings(format!("redis+cluster://{}", nodes.join(",")), SHARDS));
                Admin::new(client).walk(cursor.as_ref()).await.unwrap()
            }
        };
        let Some(messages) = walk.step().await.unwrap() else { break };
        shown.extend(ids(messages));
        visited.extend(walk.node().map(str::to_owned));
        cursor = Some(walk.cursor().to_string().parse::<WalkCursor>().unwrap());
    }
    shown.sort_unstable();
    assert_eq!(shown, expected);
    assert_eq!(visited.len(), 3);
}

#[tokio::test]
async fn a_slot_that_was_away_while_its_node_was_walked_over_is_walked_over_again() {
    let (cluster, admin, expected) = filled().await;
    let mut walk = admin.walk(None).await.unwrap();
    let mut shown = BTreeSet::from_iter(ids(walk.step().await.unwrap().unwrap()));
    let node = walk.node().unwrap().to_owned();
    let (from, shard) = at(&cluster, &node).await;
    cluster.move_slot(slot(shard), (from + 1) % 3).await;
    shown.extend(ids(walk.step().await.unwrap().unwrap()));
    assert_eq!(walk.node(), Some(&*node), "it is not through with it");
    cluster.move_slot(slot(shard), from).await;
    while let Some(messages) = walk.step().await.unwrap() {
        shown.extend(ids(messages));
    }
    assert_eq!(Vec::from_iter(shown), expected);
}

#[tokio::test]
async fn slots_that_move_to_a_node_that_was_walked_over_before_are_not_passed_over() {
    let (cluster, admin, expected) = filled().await;
    let mut walk = admin.walk(None).await.unwrap();
    let (mut shown, mut first, mut moved) = (BTreeSet::new(), None, 0);
    while let Some(messages) = walk.step().await.unwrap() {
        shown.extend(ids(messages));
        let Some(first) = &first else {
            first = walk.node().map(str::to_owned);
            continue;
        };
        let (to, _) = at(&cluster, first).await;
        let from = match (moved, walk.node()) {
            // From a node that the walk has not reached yet; then from the node under the walk.
            (0, None) => cluster.nodes[(to + 1) % 3].address(),
            (1, Some(node)) if node != first => node.to_owned(),
            _ => continue,
        };
        cluster.move_slot(slot(at(&cluster, &from).await.1), to).await;
        moved += 1;
    }
    assert_eq!(moved, 2);
    assert_eq!(Vec::from_iter(shown), expected);
}

#[tokio::test]
async fn a_slot_that_is_on_its_way_is_waited_for() {
    let (cluster, admin, expected) = filled().await;
    let (shard, shards) = (3, ShardCount::new(SHARDS).unwrap());
    let others = expected.iter().filter(|id| shards.shard_of_name(id).get() != shard).count();
    let to = (cluster.master_of(slot(shard)).await + 1) % 3;
    let from = cluster.begin_move(slot(shard), to).await;
    assert!(cluster.carry(slot(shard), from, to).await > 0);
    let (mut walk, shown) = (admin.walk(None).await.unwrap(), Mutex::new(BTreeSet::new()));
    let walking = async {
        while let Some(messages) = walk.step().await.unwrap() {
            shown.lock().unwrap().extend(ids(messages));
        }
    };
    let moving = async {
        wait_until("all others", LONG, async || shown.lock().unwrap().len() >= others).await;
        assert_eq!(shown.lock().unwrap().len(), others);
        while cluster.carry(slot(shard), from, to).await > 0 {}
        cluster.end_move(slot(shard), from, to).await;
    };
    within("the walk", LONG, async { tokio::join!(walking, moving) }).await;
    assert_eq!(Vec::from_iter(shown.into_inner().unwrap()), expected);
}
