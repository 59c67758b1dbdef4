//! A cluster of three masters and twelve shards.

use delayq::protocol::{Keys, ShardId};
use delayq::{Error, Message, Namespace, Producer, PutOutcome, ShardCount, Topic, UnixMillis};
use delayq_tests::redis_cluster::RedisCluster;
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) const FAR: UnixMillis = UnixMillis::new(4_102_444_800_000);
pub(crate) const SHARDS: u16 = 12;

pub(crate) fn topic() -> Topic {
    Topic::new("orders").unwrap()
}

pub(crate) fn message(id: &str) -> Message {
    Message::new(topic(), "x").at(FAR).id(id).unwrap()
}

pub(crate) fn slot(shard: u16) -> u16 {
    Keys::new(Namespace::default()).slot(ShardId::new(shard))
}

pub(crate) fn id_in(shard: u16, name: &str) -> String {
    let shards = ShardCount::new(SHARDS).unwrap();
    let mut ids = (0..).map(|n| format!("{name}-{n}"));
    ids.find(|id| shards.shard_of_name(id).get() == shard).unwrap()
}

/// Two shards at different nodes, the first at the node of shard 0.
pub(crate) async fn apart(cluster: &RedisCluster) -> [u16; 2] {
    let first = cluster.master_of(slot(0)).await;
    for shard in 1..SHARDS {
        if cluster.master_of(slot(shard)).await != first {
            return [0, shard];
        }
    }
    panic!("all shards are at one node");
}

/// Accepts connections and never answers.
pub(crate) fn silent() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

pub(crate) async fn elsewhere(cluster: &RedisCluster, shard: u16) -> usize {
    (cluster.master_of(slot(shard)).await + 1) % 3
}

pub(crate) async fn stored(cluster: &RedisCluster) -> BTreeMap<String, usize> {
    let mut ids = BTreeMap::new();
    for key in cluster.keys("*:m:1:*").await {
        // A byte before an own id marks the id as own.
        let id =
            String::from_utf8_lossy(&key).rsplit(':').next().unwrap().trim_start_matches('\u{1}').to_owned();
        // The group follows an own id in a group.
        let id = id.split('\u{1f}').next().unwrap_or_default().to_owned();
        *ids.entry(id).or_default() += 1;
    }
    ids
}

/// Returns the accepted ids and outcomes.
pub(crate) async fn put_on(
    producer: Producer,
    stop: Arc<AtomicBool>,
) -> (BTreeMap<String, PutOutcome>, Vec<Error>) {
    let (mut accepted, mut refused) = (BTreeMap::new(), Vec::new());
    for n in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let id = format!("load-{n}");
        loop {
            match producer.put(message(&id)).await {
                Ok(put) => {
                    accepted.insert(id, put.outcome);
                    break;
                }
                Err(error) => refused.push(error.error),
            }
        }
    }
    (accepted, refused)
}
