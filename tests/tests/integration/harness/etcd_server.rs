//! The private etcd: one member and three.

use std::process::Command;

use delayq_tests::etcd_server::EtcdCluster;

/// Runs etcd's own command line client; the second client library of the workspace is not for tests.
fn etcdctl(endpoints: &[String], words: &[&str]) -> Result<String, String> {
    let output = Command::new("etcdctl")
        .env("ETCDCTL_API", "3")
        .args(["--command-timeout=3s", "--endpoints", &endpoints.join(",")])
        .args(words)
        .output()
        .unwrap();
    if output.status.success() {
        Ok(String::from_utf8(output.stdout).unwrap())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

#[tokio::test]
async fn a_member_keeps_its_data_over_a_kill() {
    let mut etcd = EtcdCluster::start_one().await;
    etcdctl(&etcd.endpoints(), &["put", "k", "v"]).unwrap();
    etcd.member(0).kill().await;
    etcd.member(0).resume().await;
    assert_eq!(etcdctl(&etcd.endpoints(), &["get", "k", "--print-value-only"]).unwrap().trim(), "v");
}

#[tokio::test]
async fn three_members_survive_the_loss_of_their_leader_and_not_of_two() {
    let mut etcd = EtcdCluster::start_three().await;
    let first = etcd.leader().await;
    etcd.member(first).kill().await;
    let second = etcd.leader().await;
    assert_ne!(first, second);
    let endpoint = [etcd.members()[second].endpoint()];
    etcdctl(&endpoint, &["put", "k", "v"]).unwrap();
    let third = 3 - first - second;
    etcd.member(third).kill().await;
    etcdctl(&endpoint, &["put", "k", "w"]).unwrap_err();
    etcd.member(third).launch();
    etcd.member(first).launch();
    etcd.wait_healthy().await;
    assert_eq!(etcdctl(&etcd.endpoints(), &["get", "k", "--print-value-only"]).unwrap().trim().len(), 1);
}

#[tokio::test]
async fn a_frozen_etcd_does_not_answer_and_a_thawed_one_does() {
    let mut etcd = EtcdCluster::start_one().await;
    etcd.freeze();
    etcdctl(&etcd.endpoints(), &["put", "k", "v"]).unwrap_err();
    etcd.thaw();
    etcd.wait_healthy().await;
    etcdctl(&etcd.endpoints(), &["put", "k", "v"]).unwrap();
}

#[tokio::test]
async fn a_rebuilt_etcd_starts_its_revisions_again() {
    let mut etcd = EtcdCluster::start_one().await;
    for _ in 0..5 {
        etcdctl(&etcd.endpoints(), &["put", "k", "v"]).unwrap();
    }
    let before = etcdctl(&etcd.endpoints(), &["get", "k", "-w", "fields"]).unwrap();
    assert!(before.contains("\"Revision\" : 6"), "{before}");
    etcd.rebuild().await;
    let after = etcdctl(&etcd.endpoints(), &["get", "k", "-w", "fields"]).unwrap();
    assert!(after.contains("\"Revision\" : 1"), "{after}");
}
