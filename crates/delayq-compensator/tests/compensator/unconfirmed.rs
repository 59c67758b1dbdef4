//! Writes that no replica confirms: they stay in the spool until one does, and hold up no others.

use super::{Host, drain, message, resubmitted, topic};
use delayq::admin::{Durability, Policy};
use delayq::protocol::{Holder, ReserveRequest, ShardId};
use delayq::spool::SpoolRecord;
use delayq::{Admin, Fate, Message, MessageId, PutOutcome, Topic, UnixMillis};
use delayq_tests::deadline::{LONG, within};
use delayq_tests::deployment::Deployment;
use delayq_tests::redis_server::{RedisOptions, RedisServer};

/// A host, and the replica that its topic waits for.
async fn replicated() -> (Host, RedisServer) {
    let server = RedisServer::start_with(RedisOptions::default()).await;
    let replica = server.replica().await;
    let host = Host::on(Deployment::on(server, 4).await);
    let policy = Policy { durability: Some(Durability::Replicas(1)), ..Policy::default() };
    Admin::new(host.deployment.client.clone()).change_policy(&topic(), &policy, &[]).await.unwrap();
    (host, replica)
}

/// Delivers what is ready; how many messages that are.
async fn deliver(host: &Host) -> usize {
    let holder = Holder::new(host.deployment.client.clone());
    let ask = ReserveRequest { topics: vec![topic()], most: 10, max_bytes: 0, lease: None };
    let shards = host.deployment.client.shards().shards();
    let asked: Vec<_> = shards.map(|shard| (shard, ask.clone())).collect();
    let found = holder.reserve(&asked).await.into_iter().flat_map(|report| report.unwrap().messages);
    let receipts: Vec<_> = found.map(|found| found.receipt).collect();
    holder.ack(&receipts).await.into_iter().for_each(|settled| drop(settled.unwrap()));
    receipts.len()
}

#[tokio::test]
async fn what_no_replica_confirms_stays_in_the_spool_until_one_does_and_holds_up_no_other_topic() {
    let (host, replica) = replicated().await;
    replica.freeze();
    assert_eq!(host.put(message("a")).await, PutOutcome::Spooled);
    let other = Message::new(Topic::new("mail").unwrap(), "x");
    assert!(matches!(host.put(other.clone()).await, PutOutcome::Ready(_)), "its topic waits for nothing");
    let spooled = SpoolRecord::put(&other.id("b").unwrap(), Fate::NotApplied, UnixMillis::new(1));
    host.spool.append(vec![spooled]).await.unwrap();
    let mut resubmitter = host.resubmitter();
    let mut report = resubmitter.run_once().await.unwrap();
    while !report.at_end {
        assert_eq!((report.rejected, &report.held), (0, &None), "{report:?}");
        report = resubmitter.run_once().await.unwrap();
    }
    assert_eq!(report.resting, 1, "{report:?}");
    assert!(resubmitter.resting().unwrap().contains("0 of 1 replicas"), "{:?}", resubmitter.resting());

    replica.thaw();
    within("the record to be confirmed", LONG, async {
        resubmitter.begin_again();
        while drain(&mut resubmitter).await != resubmitted(1) {
            resubmitter.begin_again();
        }
    })
    .await;
}

#[tokio::test]
async fn what_is_delivered_but_not_confirmed_is_not_put_again_by_each_retry() {
    let (host, replica) = replicated().await;
    // Nobody remembers its id once it is delivered.
    let id = MessageId::generate(ShardId::new(1), 1);
    let due = Message::new(topic(), "x").with_id(id).at(UnixMillis::new(1));
    host.spool.append(vec![SpoolRecord::put(&due, Fate::NotApplied, UnixMillis::new(1))]).await.unwrap();
    replica.freeze();
    let mut resubmitter = host.resubmitter();
    let mut deliveries = 0;
    for _ in 0..5 {
        resubmitter.begin_again();
        assert_eq!(drain(&mut resubmitter).await, resubmitted(0));
        deliveries += deliver(&host).await;
    }
    assert_eq!(deliveries, 1);

    replica.thaw();
    within("the record to be confirmed", LONG, async {
        while resubmitter.stats().await.unwrap().waiting > 0 {
            resubmitter.begin_again();
            drain(&mut resubmitter).await;
        }
    })
    .await;
    deliveries += deliver(&host).await;
    assert!(deliveries <= 2, "{deliveries}: its repeat is delivered again");
}
