//! A consumer that pumps, on a cluster: each node has its own clock, and shards move.

use crate::redis_cluster::scene::{SHARDS, elsewhere, slot};
use delayq::protocol::{Owner, ShardId};
use delayq::{Client, Consumer, ConsumerOptions, Message, Topic, UnixMillis};
use delayq_tests::deadline::{LONG, within};
use delayq_tests::deployment::{created, settings};
use delayq_tests::redis_cluster::RedisCluster;
use std::collections::BTreeSet;
use std::time::Duration;

const MESSAGES: u64 = 400;

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_pumps_every_shard_of_a_cluster_also_those_that_move() {
    let cluster = RedisCluster::start().await;
    let (client, _, producer) = created(settings(cluster.url(), SHARDS)).await;
    let topic = Topic::new("pumped").unwrap();
    let options = ConsumerOptions::new([topic.clone()]).pump(true);
    let mut consumer = Consumer::start(client.clone(), options).unwrap();
    // All nodes are on this host, and have one clock.
    let clock = Owner::new(client);
    let now = async || clock.redis_time(ShardId::new(0)).await.unwrap().millis();
    let start = now().await.get() + 500;
    let message = |n| Message::new(topic.clone(), "x").at(UnixMillis::new(start + 10 * n));
    for put in producer.put_many((0..MESSAGES).map(message).collect()).await {
        put.unwrap();
    }
    let moves = async {
        for shard in [0, 5] {
            tokio::time::sleep(Duration::from_secs(1)).await;
            cluster.move_slot(slot(shard), elsewhere(&cluster, shard).await).await;
        }
    };
    let arrive = async {
        let mut arrived = BTreeSet::new();
        while arrived.len() < MESSAGES as usize {
            let delivery = within("the next message", LONG, consumer.next()).await.unwrap();
            assert!(now().await >= delivery.envelope.due, "it is early");
            assert!(arrived.insert(delivery.id.to_string()), "it came twice");
            delivery.ack().await.unwrap();
        }
    };
    tokio::join!(moves, arrive);
    consumer.stop().await;
    let other = Client::new(settings(cluster.url(), SHARDS));
    let mut next = Consumer::start(other, ConsumerOptions::new([topic.clone()]).pump(true)).unwrap();
    let last = Message::new(topic, "last").after(Duration::from_millis(50));
    producer.put(last).await.unwrap();
    within("a message pumped by the next one", LONG, next.next()).await.unwrap().ack().await.unwrap();
    next.stop().await;
}
