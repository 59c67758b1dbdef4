//! Keys deleted or replaced by hand while their member's lease lives: the member enrols again, and the fleet works.

use crate::fleet::{Floor, Member, config};
use delayq_cluster::Overview;
use delayq_tests::deadline::{LONG, wait_until};
use delayq_tests::etcd_server::EtcdCluster;
use etcd_client::{Client, DeleteOptions};

const FLEET: &str = "/delayq/dq/timer/";

async fn delete(etcd: &EtcdCluster, prefix: &str) {
    let mut tool = Client::connect(etcd.endpoints(), None).await.unwrap();
    tool.delete(format!("{FLEET}{prefix}"), Some(DeleteOptions::new().with_prefix())).await.unwrap();
}

async fn until_enrolled(members: &[Member], floor: &Floor, lives: u64, shards: u16) {
    for member in members {
        member.until_stats("joining again", |stats| stats.leases_granted == lives).await;
    }
    let names: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
    floor.until("all share", |work| work.balanced(shards, &names)).await;
    wait_until("the fleet agrees with its plan", LONG, async || {
        agree(&members[0].overview().await, members.len())
    })
    .await;
}

fn agree(overview: &Overview, members: usize) -> bool {
    let settled = overview.unplanned.is_empty();
    settled && overview.plan.is_some() && overview.members.len() == members && overview.unreadable.is_empty()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_whose_keys_are_deleted_while_its_leases_live_enrols_again() {
    let etcd = EtcdCluster::start_one().await;
    let floor = Floor::new();
    let mut members = Vec::new();
    for name in ["a", "b", "c"] {
        members.push(Member::join(config(&etcd.endpoints(), name, 24), &floor).await);
    }
    floor.until("all share", |work| work.balanced(24, &["a", "b", "c"])).await;
    delete(&etcd, "").await;
    until_enrolled(&members, &floor, 2, 24).await;
    members.push(Member::join(config(&etcd.endpoints(), "d", 24), &floor).await);
    floor.until("four share", |work| work.balanced(24, &["a", "b", "c", "d"])).await;
    assert!(members.iter().all(Member::is_trusted));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_whose_registration_alone_is_deleted_is_not_lost_for_good() {
    let etcd = EtcdCluster::start_one().await;
    let floor = Floor::new();
    let alone = [Member::join(config(&etcd.endpoints(), "a", 8), &floor).await];
    floor.until("a owns all", |work| work.balanced(8, &["a"])).await;
    let before = alone[0].handle.member();
    delete(&etcd, "members/").await;
    until_enrolled(&alone, &floor, 2, 8).await;
    assert_ne!(alone[0].handle.member(), before);
    let _second = Member::join(config(&etcd.endpoints(), "b", 8), &floor).await;
    floor.until("a and b share", |work| work.balanced(8, &["a", "b"])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registration_replaced_by_hand_does_not_keep_its_member_out() {
    let etcd = EtcdCluster::start_one().await;
    let floor = Floor::new();
    let first = Member::join(config(&etcd.endpoints(), "a", 8), &floor).await;
    let second = Member::join(config(&etcd.endpoints(), "b", 8), &floor).await;
    floor.until("a and b share", |work| work.balanced(8, &["a", "b"])).await;
    let mut tool = Client::connect(etcd.endpoints(), None).await.unwrap();
    // The leader's key after the other key: without a lease, the keys have no owner.
    for member in [&second, &first] {
        let key = format!("{FLEET}members/{}", member.handle.member().unwrap());
        let registered = tool.get(key.as_str(), None).await.unwrap().kvs()[0].value().to_vec();
        tool.put(key.as_str(), registered, None).await.unwrap();
        member.until_stats("joining again", |stats| stats.leases_granted == 2).await;
        floor.until("a and b share", |work| work.balanced(8, &["a", "b"])).await;
    }
    let third = Member::join(config(&etcd.endpoints(), "c", 8), &floor).await;
    floor.until("somebody leads", |work| work.balanced(8, &["a", "b", "c"])).await;
    assert_eq!(third.overview().await.members.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_without_a_shard_is_a_spare_only_by_a_plan() {
    let etcd = EtcdCluster::start_one().await;
    let floor = Floor::new();
    let first = Member::join(config(&etcd.endpoints(), "a", 1), &floor).await;
    floor.until("a owns all", |work| work.balanced(1, &["a"])).await;
    assert!(!first.handle.view().is_spare());
    let second = Member::join(config(&etcd.endpoints(), "b", 1), &floor).await;
    let mut view = second.handle.subscribe();
    view.wait_for(|view| view.is_spare()).await.unwrap();
    // No member is left to write a plan again: without a plan, no member is a spare.
    etcd.freeze();
    first.die();
    etcd.thaw();
    view.wait_for(|view| view.planned.len() == 1 && !view.is_spare()).await.unwrap();
}
