//! Writes without a replica's confirmation: they stay in the spool until confirmed, and hold up no others.

use super::steps::Resubmitter;
use super::{FAR, Host, drain, message, resubmitted, target, topic};
use delayq::admin::{Durability, Policy};
use delayq::protocol::{Holder, ReserveRequest, ShardId};
use delayq::spool::{GroupChange, GroupRecord, SpoolRecord};
use delayq::{Due, Fate, Group, Message, MessageId, PutOutcome, Reschedule, Shift, Topic, UnixMillis};
use delayq_tests::deadline::{LONG, within};
use delayq_tests::deployment::{Deployment, confirming, created, settings};
use delayq_tests::redis_server::{RedisOptions, RedisServer};

async fn replicated() -> (Host, RedisServer) {
    let server = RedisServer::start_with(RedisOptions::default()).await;
    let replica = server.replica().await;
    let (client, admin, producer) = created(settings(confirming(&server.url()), 4)).await;
    let host = Host::on(Deployment { server, client, producer, admin });
    let policy = Policy { durability: Some(Durability::Replicas(1)), ..Policy::default() };
    host.deployment.admin.topic(&topic()).change_policy(&policy, &[]).await.unwrap();
    (host, replica)
}

async fn confirmed(resubmitter: &mut Resubmitter) {
    within("the records to be confirmed", LONG, async {
        while resubmitter.stats().await.unwrap().waiting > 0 {
            resubmitter.try_again();
            drain(resubmitter).await;
        }
    })
    .await;
}

/// A due message, whose id is forgotten on delivery.
fn due() -> Message {
    Message::new(topic(), "x").with_id(MessageId::generate(ShardId::new(1), 1)).at(UnixMillis::new(1))
}

fn change(group: &str, change: GroupChange) -> GroupRecord {
    let group = Group::new(group).unwrap();
    GroupRecord { group, topic: None, tried_at: UnixMillis::new(1), fate: Fate::NotApplied, change }
}

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
    let mut resubmitter = host.resubmitter().await;
    let mut report = resubmitter.run_once().await.unwrap();
    while !report.at_end {
        assert_eq!((report.rejected, &report.held), (0, &None), "{report:?}");
        report = resubmitter.run_once().await.unwrap();
    }
    assert_eq!(report.resting, 1, "{report:?}");
    assert!(resubmitter.resting().unwrap().contains("0 of 1 replicas"), "{:?}", resubmitter.resting());

    replica.thaw();
    within("the record to be confirmed", LONG, async {
        resubmitter.try_again();
        while drain(&mut resubmitter).await != resubmitted(1) {
            resubmitter.try_again();
        }
    })
    .await;
}

#[tokio::test]
async fn what_is_delivered_but_not_confirmed_is_not_put_again_by_each_retry() {
    let (host, replica) = replicated().await;
    host.spool.append(vec![SpoolRecord::put(&due(), Fate::NotApplied, UnixMillis::new(1))]).await.unwrap();
    replica.freeze();
    let mut resubmitter = host.resubmitter().await;
    let mut deliveries = 0;
    for _ in 0..5 {
        resubmitter.try_again();
        assert_eq!(drain(&mut resubmitter).await, resubmitted(0));
        deliveries += deliver(&host).await;
    }
    assert_eq!(deliveries, 1);

    replica.thaw();
    confirmed(&mut resubmitter).await;
    deliveries += deliver(&host).await;
    assert_eq!(deliveries, 1, "its repeat is recognised");
}

#[tokio::test]
async fn first_tries_and_cancels_are_carried_out_although_nothing_is_confirmed() {
    let (host, replica) = replicated().await;
    for id in ["cancelled", "moved"] {
        assert_eq!(host.put(message(id)).await, PutOutcome::Stored(FAR));
    }
    replica.freeze();
    let (at, later) = (UnixMillis::new(1), UnixMillis::new(FAR.get() + 7));
    let records = vec![
        SpoolRecord::put(&message("noted"), Fate::NotApplied, at),
        SpoolRecord::cancel(&topic(), &target("cancelled"), at),
        SpoolRecord::put(&due(), Fate::NotApplied, at),
        SpoolRecord::reschedule(&topic(), &target("moved"), Reschedule::To(Due::At(later)), at),
    ];
    host.spool.append(records).await.unwrap();
    let (mut resubmitter, mut deliveries) = (host.resubmitter().await, 0);
    let Deployment { admin, .. } = &host.deployment;
    for _ in 0..3 {
        resubmitter.try_again();
        assert_eq!(drain(&mut resubmitter).await, resubmitted(0));
        deliveries += deliver(&host).await;
        let numbers = admin.topic(&topic()).count().await.unwrap();
        assert_eq!((numbers.accepted, numbers.cancelled, deliveries), (4, 1, 1));
        let moved = admin.topic(&topic()).get(&target("moved")).await.unwrap().unwrap();
        assert_eq!(moved.envelope.unwrap().due, later);
    }
    assert_eq!(resubmitter.stats().await.unwrap().waiting, 4, "nothing is confirmed");

    replica.thaw();
    confirmed(&mut resubmitter).await;
}

#[tokio::test]
async fn a_group_that_is_cancelled_but_not_confirmed_keeps_what_it_gets_afterwards() {
    let (host, replica) = replicated().await;
    let (mail, Deployment { admin, producer, .. }) = (Topic::new("mail").unwrap(), &host.deployment);
    let of_group = |id| Message::new(mail.clone(), "x").at(FAR).id(id).unwrap().group("ann").unwrap();
    producer.put(of_group("before")).await.unwrap();
    host.spool.append_group(&change("ann", GroupChange::Cancel), false).await.unwrap();
    replica.freeze();
    let mut resubmitter = host.resubmitter().await;
    assert_eq!(drain(&mut resubmitter).await, resubmitted(0));
    assert_eq!(producer.put(of_group("after")).await.unwrap().outcome, PutOutcome::Stored(FAR));
    for _ in 0..3 {
        resubmitter.try_again();
        assert_eq!(drain(&mut resubmitter).await, resubmitted(0));
    }
    let numbers = admin.topic(&mail).count().await.unwrap();
    assert_eq!((numbers.cancelled, numbers.delayed), (1, 1));

    replica.thaw();
    confirmed(&mut resubmitter).await;
}

#[tokio::test]
async fn changes_of_many_groups_that_no_replica_confirms_wait_together() {
    const GROUPS: u64 = 20;
    let (host, replica) = replicated().await;
    for n in 0..GROUPS {
        let shift = GroupChange::Shift { by: Shift::from_millis(1), token: "t".to_owned() };
        let of = if n % 2 == 0 { GroupChange::Cancel } else { shift };
        host.spool.append_group(&change(&format!("g{n}"), of), false).await.unwrap();
    }
    replica.freeze();
    let (mut resubmitter, server) = (host.resubmitter().await, &host.deployment.server);
    let before = server.calls_of("wait").await;
    assert_eq!(drain(&mut resubmitter).await, resubmitted(0));
    let waits = server.calls_of("wait").await - before;
    assert!((1..GROUPS / 2).contains(&waits), "{waits}: one change, and what asks for all others");

    replica.thaw();
    confirmed(&mut resubmitter).await;
}
