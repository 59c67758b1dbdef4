//! Wake-ups come from the node that has the shard, wherever the shard goes.

use crate::redis_cluster::scene::{FAR, SHARDS, elsewhere, id_in, message, slot};
use delayq::protocol::{Listener, Notification, Owner, ShardId};
use delayq::{Client, Producer, UnixMillis};
use delayq_tests::deadline::{LONG, wait_until, within};
use delayq_tests::deployment::{created, settings};
use delayq_tests::redis_cluster::RedisCluster;
use delayq_tests::redis_server::RedisServer;
use std::collections::BTreeSet;
use std::time::Duration;

struct Hearing {
    producer: Producer,
    listener: Listener,
    due: u64,
}

impl Hearing {
    fn start(client: &Client, producer: &Producer) -> Self {
        let listener = Owner::new(client.clone()).listen(client.shards().shards().collect());
        Self { producer: producer.clone(), listener, due: FAR.get() }
    }

    /// Waits until the listener hears this shard. Without a subscription a wake-up is lost, and a resync follows.
    async fn hears(&mut self, shard: u16) {
        let heard = async {
            loop {
                self.due -= 1;
                let due = UnixMillis::new(self.due);
                self.producer.put(message(&id_in(shard, &self.due.to_string())).at(due)).await.unwrap();
                let wake = Notification::Wake(ShardId::new(shard), due);
                let hears = async { while self.listener.next().await != wake {} };
                if tokio::time::timeout(Duration::from_millis(500), hears).await.is_ok() {
                    return;
                }
            }
        };
        within(&format!("a wake-up of shard {shard}"), LONG, heard).await;
    }
}

#[tokio::test]
async fn a_listener_follows_a_shard_to_its_new_node() {
    let cluster = RedisCluster::start().await;
    let (client, _, producer) = created(settings(cluster.url(), SHARDS)).await;
    let mut hearing = Hearing::start(&client, &producer);
    for _ in 0..3 {
        for shard in 0..SHARDS {
            hearing.hears(shard).await;
        }
        for shard in [0, 5] {
            cluster.move_slot(slot(shard), elsewhere(&cluster, shard).await).await;
        }
    }
}

async fn subscribed(node: &RedisServer) -> BTreeSet<String> {
    let clients: String = node.command(&["CLIENT", "LIST"]).await;
    let is_subscribed = |line: &&str| line.contains(" ssub=") && !line.contains(" ssub=0 ");
    clients.lines().filter(is_subscribed).map(|line| line.split(' ').next().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_shard_that_leaves_a_node_does_not_interrupt_the_listening_to_the_others_there() {
    let cluster = RedisCluster::start().await;
    let (client, _, producer) = created(settings(cluster.url(), SHARDS)).await;
    let mut hearing = Hearing::start(&client, &producer);
    let (from, to) = (cluster.master_of(slot(0)).await, elsewhere(&cluster, 0).await);
    let mut stays = 1;
    while cluster.master_of(slot(stays)).await != from {
        stays += 1;
    }
    hearing.hears(0).await;
    hearing.hears(stays).await;
    let before = subscribed(&cluster.nodes[from]).await;
    assert_eq!(before.len(), 1);
    cluster.move_slot(slot(0), to).await;
    hearing.hears(0).await;
    hearing.hears(stays).await;
    assert_eq!(subscribed(&cluster.nodes[from]).await, before);
}

#[tokio::test]
async fn a_slot_that_no_node_has_keeps_no_other_shard_from_being_heard() {
    let cluster = RedisCluster::start().await;
    let (_, _, producer) = created(settings(cluster.url(), SHARDS)).await;
    let (lost, master) = (slot(3).to_string(), cluster.master_of(slot(3)).await);
    for node in &cluster.nodes {
        node.command::<()>(&["CLUSTER", "DELSLOTS", &lost]).await;
    }
    let mut hearing = Hearing::start(&Client::new(settings(cluster.url(), SHARDS)), &producer);
    for shard in (0..SHARDS).filter(|shard| *shard != 3) {
        hearing.hears(shard).await;
    }
    cluster.nodes[master].command::<()>(&["CLUSTER", "ADDSLOTS", &lost]).await;
    cluster.settled().await;
    wait_until("a put into it", LONG, async || producer.put(message(&id_in(3, "x"))).await.is_ok()).await;
    hearing.hears(3).await;
}
