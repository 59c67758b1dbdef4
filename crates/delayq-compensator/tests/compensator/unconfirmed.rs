//! Writes that no replica confirms: they stay in the spool until one does, and hold up no others.

use super::{Host, drain, message, resubmitted};
use delayq::admin::{Durability, Policy};
use delayq::spool::SpoolRecord;
use delayq::{Admin, Fate, Message, PutOutcome, Topic, UnixMillis};
use delayq_tests::deadline::{LONG, wait_until, within};
use delayq_tests::deployment::Deployment;
use delayq_tests::redis_server::{RedisOptions, RedisServer};

#[tokio::test]
async fn what_no_replica_confirms_stays_in_the_spool_until_one_does_and_holds_up_no_other_topic() {
    let options = RedisOptions::default().set("repl-diskless-sync-delay", "0");
    let server = RedisServer::start_with(options.clone()).await;
    let replica = RedisServer::start_with(options.replica_of(&server)).await;
    let follows = async || replica.field("master_link_status").await == "up";
    wait_until("the replica to have its master's data", LONG, follows).await;
    let host = Host::on(Deployment::on(server, 4).await);
    let policy = Policy { durability: Some(Durability::Replicas(1)), ..Policy::default() };
    let admin = Admin::new(host.deployment.client.clone());
    admin.change_policy(&Topic::new("orders").unwrap(), &policy, &[]).await.unwrap();

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
