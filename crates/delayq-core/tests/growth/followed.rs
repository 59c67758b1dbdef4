//! How clients that know too little, or too much, find out.

use crate::ground::{FAR, Ground, Party, count};
use delayq_core::{Consumer, ConsumerOptions, Error, Heard, Message, PutOutcome, ShardId};
use delayq_tests::deadline::{SHORT, within};
use std::{collections::HashSet, time::Duration};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_from_before_a_growth_is_refused_once_and_follows() {
    let ground = Ground::new().await;
    let party = ground.party(4);
    party.put_all((0..100).map(|n| ground.message(n))).await;
    let mut growth = party.client.growth();
    ground.grow(8).await;
    assert_eq!(party.client.shards().get(), 4, "nobody has told it yet");
    party.put_all((100..200).map(|n| ground.message(n))).await;
    assert_eq!(within("the growth", SHORT, growth.next()).await, count(8));
    for n in 0..200 {
        let message = ground.message(n);
        let home = party.client.shard_of(message.message_id().unwrap(), ground.target(n).group.as_ref());
        let found = ground.admin().get(&ground.topic, &ground.target(n)).await.unwrap().unwrap();
        if n < 100 {
            assert!(found.shard.get() < 4, "{n}");
        } else {
            assert_eq!(found.shard, home, "{n}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_configured_count_that_was_once_right_is_right_and_any_other_is_refused() {
    let ground = Ground::new().await;
    ground.grow(8).await;
    ground.grow(12).await;
    for shards in [4, 8, 12] {
        let party = ground.party(shards);
        party.client.check_server().await.unwrap();
        assert_eq!(party.client.shards(), count(12));
        assert!(matches!(
            ground.party(shards).put(ground.message(1)).await,
            PutOutcome::Stored(_) | PutOutcome::Exists(..)
        ));
    }
    for shards in [6, 16] {
        let error = ground.party(shards).producer.put(ground.message(2)).await.unwrap_err().error;
        let said = error.to_string();
        assert!(matches!(error, Error::Deployment(_)), "{said}");
        assert!(said.contains(&format!("configured for {shards} shards")), "{said}");
        assert!(said.contains("has 12, and had 4, then 8"), "{said}");
    }
}

/// The growth has made its shards and raised none, or the first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_knows_the_growth_raises_the_shards_that_do_not() {
    for raised in 0..2 {
        let ground = Ground::new().await;
        let party = ground.party(4);
        party.put_all((0..100).map(|n| ground.message(n))).await;
        ground.grow(8).await;
        for shard in raised..4 {
            let meta = format!("{{dq:{shard}}}:meta");
            ground.server.command::<u32>(&["HSET", &meta, "layout", "1", "counts", "4", "shards", "4"]).await;
        }
        // One whose configuration was changed already, and one that followed before.
        for party in [ground.party(8), Party::new(ground.client.clone())] {
            for outcome in party.put_all((0..100).map(|n| ground.message(n))).await {
                assert!(matches!(outcome, PutOutcome::Exists(..)), "{outcome:?}");
            }
        }
        assert_eq!(ground.layouts(8).await, ["4,8"; 8]);
        // Nobody puts by the old layout any more.
        for outcome in party.put_all((0..100).map(|n| ground.message(n))).await {
            assert!(matches!(outcome, PutOutcome::Exists(..)), "{outcome:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_another_deployment_is_refused_and_does_not_follow() {
    let ground = Ground::new().await;
    let party = ground.party(4);
    party.put(ground.message(1)).await;
    ground.server.command::<()>(&["FLUSHDB"]).await;
    ground.party(5).client.init().await.unwrap();
    delayq_core::Admin::new(ground.party(5).client).grow(count(8), |_| {}).await.unwrap();
    let error = party.producer.put(ground.message(2)).await.unwrap_err().error;
    assert!(matches!(&error, Error::Layout { counts, .. } if counts == "5,8"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_consumer_hands_out_what_the_new_shards_get() {
    let ground = Ground::new().await;
    let (party, other) = (ground.party(4), ground.party(4));
    let mut consumer = Consumer::start(party.client.clone(), ConsumerOptions::new([ground.topic.clone()]));
    let first = Message::new(ground.topic.clone(), "first");
    other.put(first).await;
    within("the first message", SHORT, consumer.next()).await.unwrap().ack().await.unwrap();
    ground.grow(8).await;
    other.put_all((0..200).map(|n| ground.message(n).after(Duration::ZERO))).await;
    let mut seen = HashSet::new();
    for _ in 0..200 {
        let delivery = within("a message", SHORT, consumer.next()).await.unwrap();
        assert!(seen.insert(delivery.id.clone()), "{} came twice", delivery.id);
        delivery.ack().await.unwrap();
    }
    consumer.stop().await;
    assert_eq!(party.client.shards(), count(8));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_listens_to_a_shard_hears_that_it_was_raised() {
    let ground = Ground::new().await;
    let party = ground.party(4);
    let shards: Vec<ShardId> = (0..4).map(ShardId::new).collect();
    let (mut wakes, mut ready) =
        (party.client.listen_for_wakes(shards.clone()), party.client.listen_for_ready(shards.clone()));
    for listener in [&mut wakes, &mut ready] {
        assert_eq!(within("the connection", SHORT, listener.next()).await, Heard::Resync);
    }
    ground.grow(8).await;
    let (mut woken, mut told) = (HashSet::new(), HashSet::new());
    while woken.len() < 4 {
        match within("a wake", SHORT, wakes.next()).await {
            Heard::Wake(shard, _) => woken.insert(shard),
            other => panic!("{other:?}"),
        };
    }
    while told.len() < 4 {
        match within("a word", SHORT, ready.next()).await {
            Heard::Ready(shard, None) => told.insert(shard),
            other => panic!("{other:?}"),
        };
    }
    assert_eq!(party.client.shards(), count(4), "hearing alone tells nothing");
    party.put(ground.message(1).after(FAR)).await;
    assert_eq!(party.client.shards(), count(8));
}
