//! Each node has its own clock, by which delayq dates repeats at that node.

use crate::redis_cluster::scene::{FAR, SHARDS, apart, id_in, message, slot, topic};
use delayq::{PutOutcome, State, UnixMillis};
use delayq_tests::clock_shim::ClockShim;
use delayq_tests::deployment::{created, settings};
use delayq_tests::redis_cluster::RedisCluster;

#[tokio::test]
async fn a_repeat_is_dated_by_the_clock_of_its_own_node() {
    let clocks = [(); 3].map(|()| ClockShim::new());
    clocks[0].set_offset_ms(-3_600_000);
    let cluster = RedisCluster::with_clocks(&clocks).await;
    let (_, _, producer) = created(settings(cluster.url(), SHARDS)).await;
    let mut masters = Vec::new();
    for shard in 0..SHARDS {
        masters.push(cluster.master_of(slot(shard)).await);
    }
    let [behind, other] = [true, false].map(|behind| {
        (0..SHARDS).zip(&masters).find(|(_, master)| (**master == 0) == behind).expect("a shard there").0
    });
    let was_put = message(&id_in(behind, "x")).replace();
    producer.put(was_put.clone()).await.unwrap();
    producer.cancel(&topic(), &was_put.id.clone().unwrap().into()).await.unwrap();
    let tried = UnixMillis::new(cluster.nodes[1].now_ms().await - 10_000);
    let repeats = vec![message(&id_in(other, "y")).first_tried(tried), was_put.first_tried(tried)];
    let answers = producer.put_many(repeats).await;
    let outcomes: Vec<PutOutcome> = answers.into_iter().map(|put| put.unwrap().outcome).collect();
    assert!(
        matches!(outcomes[..], [PutOutcome::Stored(FAR), PutOutcome::Exists(State::Cancelled, _)]),
        "{outcomes:?}"
    );
}

#[tokio::test]
async fn a_node_that_does_not_say_its_time_fails_its_own_repeats_alone() {
    let cluster = RedisCluster::start().await;
    let (_, _, producer) = created(settings(cluster.url(), SHARDS)).await;
    let [silent, other] = apart(&cluster).await;
    let (frozen, tried) = (cluster.master_of(slot(silent)).await, UnixMillis::new(1));
    cluster.nodes[frozen].freeze();
    let repeats = [silent, other].map(|shard| message(&id_in(shard, "x")).first_tried(tried));
    let answers = producer.put_many(repeats.into()).await;
    cluster.nodes[frozen].thaw();
    let error = &answers[0].as_ref().unwrap_err().error;
    assert!(error.is_outage(), "{error}");
    assert_eq!(answers[1].as_ref().unwrap().outcome, PutOutcome::Stored(FAR));
}
