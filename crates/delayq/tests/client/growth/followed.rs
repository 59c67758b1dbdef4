//! Clients correct themselves after knowing too little, or too much.

use crate::growth::grown::{FAR, Grown, Party, count};
use delayq::protocol::{Holder, Notification, Owner, ShardId};
use delayq::{Admin, Consumer, ConsumerOptions, Error, Message, PutOutcome};
use delayq_tests::deadline::{SHORT, within};
use std::collections::HashSet;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_from_before_a_growth_is_refused_once_and_follows() {
    let grown = Grown::new().await;
    let party = grown.party(4);
    party.put_all((0..100).map(|n| grown.message(n))).await;
    let mut growth = party.client.growth();
    grown.grow(8).await;
    assert_eq!(party.client.shards().get(), 4, "nobody has told it yet");
    party.put_all((100..200).map(|n| grown.message(n))).await;
    assert_eq!(within("the growth", SHORT, growth.next()).await, count(8));
    let layout = Admin::new(party.client.clone()).layout().await.unwrap();
    for n in 0..200 {
        let message = grown.message(n);
        let home = layout.placement_of(message.id.as_ref().unwrap(), grown.target(n).group.as_ref()).home;
        let found = grown.admin().topic(&grown.topic).get(&grown.target(n)).await.unwrap().unwrap();
        if n < 100 {
            assert!(found.shard.get() < 4, "{n}");
        } else {
            assert_eq!(found.shard, home, "{n}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_configured_count_that_was_once_right_is_right_and_any_other_is_refused() {
    let grown = Grown::new().await;
    grown.grow(8).await;
    grown.grow(12).await;
    for shards in [4, 8, 12] {
        let party = grown.party(shards);
        Admin::new(party.client.clone()).check_server().await.unwrap();
        assert_eq!(party.client.shards(), count(12));
        assert!(matches!(
            grown.party(shards).put(grown.message(1)).await,
            PutOutcome::Stored(_) | PutOutcome::Exists(..)
        ));
    }
    for shards in [6, 16] {
        let error = grown.party(shards).producer.put(grown.message(2)).await.unwrap_err().error;
        let said = error.to_string();
        assert!(matches!(error, Error::Deployment(_)), "{said}");
        assert!(said.contains(&format!("configured for {shards} shards")), "{said}");
        assert!(said.contains("has 12, and had 4, then 8"), "{said}");
    }
}

/// The growth has created its shards, and raised no shard or the first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_knows_the_growth_raises_the_shards_that_do_not() {
    for raised in 0..2 {
        let grown = Grown::new().await;
        let party = grown.party(4);
        party.put_all((0..100).map(|n| grown.message(n))).await;
        grown.grow(8).await;
        for shard in raised..4 {
            let meta = format!("{{dq:{shard}}}:meta");
            grown.server.command::<u32>(&["HSET", &meta, "layout", "1", "counts", "4", "shards", "4"]).await;
        }
        // A client with a changed configuration, and a client that followed before.
        for party in [grown.party(8), Party::new(grown.client.clone())] {
            for outcome in party.put_all((0..100).map(|n| grown.message(n))).await {
                assert!(matches!(outcome, PutOutcome::Exists(..)), "{outcome:?}");
            }
        }
        assert_eq!(grown.layouts(8).await, ["4,8"; 8]);
        for outcome in party.put_all((0..100).map(|n| grown.message(n))).await {
            assert!(matches!(outcome, PutOutcome::Exists(..)), "{outcome:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_another_deployment_is_refused_and_does_not_follow() {
    let grown = Grown::new().await;
    let party = grown.party(4);
    party.put(grown.message(1)).await;
    grown.server.command::<()>(&["FLUSHDB"]).await;
    Admin::new(grown.party(5).client.clone()).init().await.unwrap();
    delayq::Admin::new(grown.party(5).client).shards().grow(count(8), |_| {}).await.unwrap();
    let error = party.producer.put(grown.message(2)).await.unwrap_err().error;
    assert!(matches!(&error, Error::Foreign { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_consumer_hands_out_what_the_new_shards_get() {
    let grown = Grown::new().await;
    let (party, other) = (grown.party(4), grown.party(4));
    let mut consumer =
        Consumer::start(party.client.clone(), ConsumerOptions::new([grown.topic.clone()])).unwrap();
    let first = Message::new(grown.topic.clone(), "first");
    other.put(first).await;
    within("the first message", SHORT, consumer.next()).await.unwrap().ack().await.unwrap();
    grown.grow(8).await;
    other.put_all((0..200).map(|n| grown.message(n).after(Duration::ZERO))).await;
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
async fn a_listener_of_a_shard_learns_that_it_was_raised() {
    let grown = Grown::new().await;
    let party = grown.party(4);
    let shards: Vec<ShardId> = (0..4).map(ShardId::new).collect();
    let (mut wakes, mut ready) = (
        Owner::new(party.client.clone()).listen(shards.clone()),
        Holder::new(party.client.clone()).listen(shards.clone()),
    );
    let nodes = grown.admin().shards().by_node().await.unwrap().len();
    for listener in [&mut wakes, &mut ready] {
        for _ in 0..nodes {
            assert_eq!(within("a connection", SHORT, listener.next()).await, Notification::Resync);
        }
    }
    grown.grow(8).await;
    let (mut woken, mut told) = (HashSet::new(), HashSet::new());
    while woken.len() < 4 {
        match within("a wake", SHORT, wakes.next()).await {
            Notification::Wake(shard, _) => woken.insert(shard),
            other => panic!("{other:?}"),
        };
    }
    while told.len() < 4 {
        match within("a word", SHORT, ready.next()).await {
            Notification::Ready(shard, None) => told.insert(shard),
            other => panic!("{other:?}"),
        };
    }
    assert_eq!(party.client.shards(), count(4), "hearing alone tells nothing");
    party.put(grown.message(1).after(FAR)).await;
    assert_eq!(party.client.shards(), count(8));
}
