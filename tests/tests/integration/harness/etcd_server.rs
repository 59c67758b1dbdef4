//! The private etcd: one member and three.

use delayq_tests::deadline::{LONG, wait_for, wait_until};
use delayq_tests::etcd_server::{EtcdCluster, EtcdOptions};

#[tokio::test]
async fn a_member_keeps_its_data_over_a_kill() {
    let mut etcd = EtcdCluster::start_one().await;
    etcd.ctl(&["put", "k", "v"]).await;
    etcd.member(0).kill().await;
    etcd.member(0).resume().await;
    assert_eq!(etcd.ctl(&["get", "k", "--print-value-only"]).await.trim(), "v");
}

#[tokio::test]
async fn three_members_survive_the_loss_of_their_leader_and_not_of_two() {
    let mut etcd = EtcdCluster::start_three().await;
    let first = etcd.leader().await;
    etcd.member(first).kill().await;
    let second = etcd.leader().await;
    assert_ne!(first, second);
    put_at(&etcd, second, "v").await;
    let third = 3 - first - second;
    etcd.member(third).kill().await;
    etcd.try_ctl(&["put", "k", "w"]).await.unwrap_err();
    etcd.member(third).launch();
    etcd.member(first).launch();
    etcd.wait_healthy().await;
    // A refused write may still have been committed with the others' help.
    assert!(["v", "w"].contains(&value_at(&etcd, first).await.as_str()));
}

#[tokio::test]
async fn a_frozen_etcd_does_not_answer_and_a_thawed_one_does() {
    let mut etcd = EtcdCluster::start_one().await;
    etcd.freeze();
    etcd.try_ctl(&["put", "k", "v"]).await.unwrap_err();
    etcd.thaw();
    etcd.wait_healthy().await;
    etcd.ctl(&["put", "k", "v"]).await;
}

#[tokio::test]
async fn a_rebuilt_etcd_starts_its_revisions_again() {
    let mut etcd = EtcdCluster::start_one().await;
    for _ in 0..5 {
        etcd.ctl(&["put", "k", "v"]).await;
    }
    let before = etcd.ctl(&["get", "k", "-w", "fields"]).await;
    assert!(before.contains("\"Revision\" : 6"), "{before}");
    etcd.rebuild().await;
    let after = etcd.ctl(&["get", "k", "-w", "fields"]).await;
    assert!(after.contains("\"Revision\" : 1"), "{after}");
}

#[tokio::test]
async fn a_leader_cut_off_from_its_peers_is_replaced_and_takes_part_again_when_reunited() {
    let mut etcd = EtcdCluster::start_with(EtcdOptions::default().members(3).partitionable()).await;
    let first = etcd.leader().await;
    etcd.isolate(first);
    let second = wait_for("another leader", LONG, || async {
        etcd.leaders().await.into_iter().find(|&leads| leads != first)
    })
    .await;
    wait_until("the old one to know", LONG, || async { !etcd.leaders().await.contains(&first) }).await;
    put_at(&etcd, second, "v").await;
    etcd.try_ctl_at(first, &["get", "k"]).await.unwrap_err();
    etcd.reunite().await;
    // A healthy member hears from a leader. Any member may lead: the isolated member returns with a higher term, which
    // forces an election, and may win after catching up.
    etcd.wait_healthy().await;
    assert_eq!(value_at(&etcd, first).await, "v");
}

#[tokio::test]
async fn keys_put_deleted_and_compacted_by_the_gateway() {
    let etcd = EtcdCluster::start_one().await;
    let keys: Vec<String> = (0..150).map(|n| format!("some/{n:03}")).collect();
    etcd.put_all(&keys).await;
    assert_eq!(etcd.keys("some/").await, keys);
    etcd.delete_range("some/000", "some/149").await;
    assert_eq!(etcd.keys("some/").await, ["some/149"]);
    etcd.compact().await;
    let old = etcd.try_ctl(&["get", "some/000", "--rev", "2"]).await.unwrap_err();
    assert!(old.contains("compacted"), "{old}");
}

/// Puts the value of `k` through one member; an election meanwhile drops the call.
async fn put_at(etcd: &EtcdCluster, number: usize, value: &str) {
    wait_until("etcd to take a key", LONG, || async {
        etcd.try_ctl_at(number, &["put", "k", value]).await.is_ok()
    })
    .await;
}

/// A linearizable read of `k` from one member.
async fn value_at(etcd: &EtcdCluster, number: usize) -> String {
    let value = wait_for("etcd to tell a key", LONG, || async {
        etcd.try_ctl_at(number, &["get", "k", "--print-value-only"]).await.ok()
    })
    .await;
    value.trim().to_owned()
}
