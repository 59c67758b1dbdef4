//! A forwarder over a Redis Cluster.

use crate::stage::{Stage, route};
use delayq::Namespace;
use delayq::protocol::{Keys, ShardId};
use delayq_forwarder::{FileConfig, SinkConfig};
use delayq_tests::deadline::{LONG, wait_until, within};
use delayq_tests::redis_cluster::RedisCluster;

/// At least two nodes have shards.
async fn spread(cluster: &RedisCluster) -> (Stage, Vec<usize>) {
    loop {
        let stage = Stage::at(&cluster.url()).await;
        let keys = Keys::new(Namespace::new(&stage.namespace).unwrap());
        let mut nodes = Vec::new();
        for shard in 0..4 {
            nodes.push(cluster.master_of(keys.slot(ShardId::new(shard))).await);
        }
        if nodes.iter().any(|node| *node != nodes[0]) {
            return (stage, nodes);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_node_stops_the_messages_of_its_own_shards_alone() {
    const MORE: usize = 40;
    let (cluster, folder) = (RedisCluster::start().await, tempfile::tempdir().unwrap());
    let (stage, nodes) = spread(&cluster).await;
    let file = FileConfig { dir: folder.path().to_owned(), rotate_at: None };
    let sink = SinkConfig { file: Some(file), ..SinkConfig::default() };
    let running = stage.forward(stage.settings([("f", sink)], vec![route("t", "f", "all")])).await.unwrap();
    let shards = stage.client.shards();
    let is_of_silent = |id: &String| nodes[usize::from(shards.shard_of_name(id).get())] == nodes[0];
    let (theirs, others): (Vec<String>, Vec<String>) =
        (0..).map(|n| n.to_string()).take(8 * MORE).partition(is_of_silent);
    let mut delivered = 0;
    let mut put = async |id: &String| {
        stage.put_bodies("t", vec![(id.clone(), b"x".to_vec())]).await;
        delivered += 1;
        let metric = "delayq_forwarder_outcomes_total{sink=\"f\",outcome=\"delivered\"}";
        wait_until("the delivery", LONG, || async { running.metric(metric) >= f64::from(delivered) }).await;
    };
    put(&theirs[0]).await;
    put(&others[0]).await;
    cluster.nodes[nodes[0]].freeze();
    let silent = cluster.nodes[nodes[0]].address();
    wait_until("the silent node to be named", LONG, || async {
        running.readiness.unready().iter().any(|unready| unready.reason.contains(&silent))
    })
    .await;
    within("the messages of the others", LONG, async {
        for id in &others[1..=MORE] {
            put(id).await;
        }
    })
    .await;
    cluster.nodes[nodes[0]].thaw();
    put(&theirs[1]).await;
    wait_until("the forwarder to be ready", LONG, || async { running.readiness.unready().is_empty() }).await;
    running.stop().await;
}
