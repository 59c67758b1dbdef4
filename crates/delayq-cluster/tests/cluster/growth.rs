//! More shards, and a single owner without etcd.

use crate::fleet::{Floor, Member, s};
use crate::scope::Scope;
use delayq_cluster::{Cluster, LossReason, ShardCount, ShardId, Trust};

#[tokio::test(flavor = "multi_thread")]
async fn more_shards_are_owned_without_moving_the_old_ones() {
    let scope = Scope::shared().await;
    let floor = Floor::new();
    let first = Member::join(scope.config("a", 64), &floor).await;
    let second = Member::join(scope.config("b", 64), &floor).await;
    floor.until("a and b share", |work| work.balanced(64, &["a", "b"])).await;
    let moved = floor.work().losses.len();
    let since = async || {
        let members = first.handle.overview().await.unwrap().members;
        members.into_iter().map(|member| (member.name, member.since_ms)).collect::<Vec<_>>()
    };
    let joined = since().await;
    // One member learns of the growth first; the plan follows it.
    second.handle.set_shards(ShardCount::new(128).unwrap());
    floor.until("128 are shared", |work| work.balanced(128, &["a", "b"])).await;
    assert_eq!(floor.work().losses.len(), moved);
    assert_eq!(since().await, joined, "what they say of themselves changed, not when they registered");
    first.handle.set_shards(ShardCount::new(128).unwrap());
    first.leave().await;
    floor.until("b owns all", |work| work.balanced(128, &["b"])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_single_owner_has_everything_at_once_and_gives_it_up_only_when_confirmed() {
    let count = ShardCount::new(8).unwrap();
    let (handle, mut ownership) = Cluster::single("only", count);
    let change = ownership.next().await.unwrap();
    assert_eq!(change.gained.len(), 8);
    assert_eq!(change.trust, Trust::Trusted { until: None });
    handle.set_shards(ShardCount::new(10).unwrap());
    assert_eq!(ownership.next().await.unwrap().gained, [ShardId::new(8), ShardId::new(9)]);
    let asked = [ShardId::new(1), ShardId::new(77)];
    assert_eq!(handle.still_mine(&asked).await.unwrap(), [ShardId::new(1)]);

    let drain = tokio::spawn({
        let handle = handle.clone();
        async move { handle.drain(s(5)).await }
    });
    let lost = ownership.next().await.unwrap().lost;
    assert_eq!(lost.len(), 10);
    assert!(lost.iter().all(|lost| lost.reason == LossReason::HandOver { to: None }));
    assert!(!drain.is_finished());
    assert_eq!(handle.overview().await.unwrap().unclaimed.len(), 10);
    ownership.confirm(&lost);
    assert_eq!(drain.await.unwrap().left_over, []);
    assert!(handle.leave(s(1)).await);
    assert_eq!(handle.trust(), Trust::Left);
    while ownership.next().await.is_some() {}
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_that_nobody_confirms_names_what_is_left() {
    let (handle, mut ownership) = Cluster::single("only", ShardCount::new(3).unwrap());
    ownership.next().await.unwrap();
    let report = handle.drain(std::time::Duration::from_millis(50)).await;
    assert_eq!(report.left_over.len(), 3);
    assert!(handle.leave(s(1)).await);
}
