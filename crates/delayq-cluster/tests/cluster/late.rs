//! A member starts while etcd cannot register the member, and joins later.

use crate::fleet::{Floor, Member, config};
use delayq_cluster::{Cluster, ClusterError, Observer, Trust};
use delayq_tests::deadline::LONG;
use delayq_tests::etcd_server::{EtcdCluster, EtcdOptions};

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_starts_while_etcd_is_away_joins_when_it_is_back() {
    let mut etcd = EtcdCluster::start_one().await;
    let floor = Floor::new();
    etcd.member(0).kill().await;
    let member = Member::start(config(&etcd.endpoints(), "a", 8), &floor).await;
    assert_eq!(member.handle.trust(), Trust::Joining);
    assert!(member.handle.member().is_none() && !member.handle.view().is_spare());
    etcd.member(0).resume().await;
    floor.until("a owns all", |work| work.balanced(8, &["a"])).await;
    assert!(member.is_trusted());
    member.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_never_joined_drains_and_leaves_at_once() {
    let mut etcd = EtcdCluster::start_one().await;
    etcd.member(0).kill().await;
    let member = Member::start(config(&etcd.endpoints(), "a", 8), &Floor::new()).await;
    member.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_that_cannot_be_used_is_not_waited_with() {
    let mut bad = config(&["http://127.0.0.1:9".to_owned()], "a", 8);
    bad.member.name = String::new();
    assert!(matches!(Cluster::start(bad).await.err(), Some(ClusterError::Config(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_etcd_that_is_full_is_not_connected_to_again_and_again() {
    // A quota that a few writes use up, and that the existing keys fit into.
    let options = EtcdOptions::default().arguments(["--quota-backend-bytes", "2000000"]);
    let etcd = EtcdCluster::start_with(options).await;
    let floor = Floor::new();
    let member = Member::join(config(&etcd.endpoints(), "a", 8), &floor).await;
    floor.until("a owns all", |work| work.balanced(8, &["a"])).await;
    let mut tool = etcd_client::Client::connect(etcd.endpoints(), None).await.unwrap();
    while tool.put("elsewhere", "x".repeat(100_000), None).await.is_ok() {}
    let observer = Observer::new(&config(&etcd.endpoints(), "observer", 8)).unwrap();
    assert_eq!(observer.health().await[0].alarms, ["NOSPACE"]);
    let before = member.handle.stats();
    tool.delete("/delayq/dq/timer/plan", None).await.unwrap();
    member.until_stats("some tries", |stats| stats.requests >= before.requests + 4).await;
    assert_eq!(member.handle.stats().reconnects, before.reconnects);
    let second = Member::start(config(&etcd.endpoints(), "b", 8), &floor).await;
    assert_eq!(second.handle.trust(), Trust::Joining);
    etcd.compact().await;
    tool.defragment().await.unwrap();
    etcd.ctl(&["alarm", "disarm"]).await;
    floor.until("both share", |work| work.balanced(8, &["a", "b"])).await;
    tokio::time::timeout(LONG, second.overview()).await.unwrap();
}
