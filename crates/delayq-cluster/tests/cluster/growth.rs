//! More shards, and a single owner without etcd.

use crate::fleet::{Floor, Member, s};
use crate::scope::Scope;
use delayq_cluster::{Cluster, ShardCount, ShardId, Trust};

#[tokio::test(flavor = "multi_thread")]
async fn more_shards_are_owned_without_moving_the_old_ones() {
    let scope = Scope::shared().await;
    let floor = Floor::new();
    let first = Member::join(scope.config("a", 64), &floor).await;
    let second = Member::join(scope.config("b", 64), &floor).await;
    floor.until("a and b share", |work| work.balanced(64, &["a", "b"])).await;
    let moved = floor.work().claims;
    let since = async || {
        let members = first.overview().await.members;
        members.into_iter().map(|member| (member.name, member.since_ms)).collect::<Vec<_>>()
    };
    let joined = since().await;
    // One member learns of the growth first; the plan follows that member.
    second.handle.set_shards(ShardCount::new(128).unwrap());
    floor.until("128 are shared", |work| work.balanced(128, &["a", "b"])).await;
    assert_eq!(floor.work().claims, moved + 64, "each new one was claimed once");
    assert_eq!(since().await, joined, "what they say of themselves changed, not when they registered");
    first.handle.set_shards(ShardCount::new(128).unwrap());
    first.leave().await;
    floor.until("b owns all", |work| work.balanced(128, &["b"])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_single_owner_has_everything_at_once_and_nobody_after_it() {
    let count = ShardCount::new(8).unwrap();
    let handle = Cluster::single(count);
    let mut view = handle.subscribe();
    let now = view.borrow_and_update().clone();
    assert_eq!((now.planned.len(), now.trust), (8, Trust::Trusted { until: None }));
    handle.set_shards(ShardCount::new(10).unwrap());
    view.wait_for(|view| view.planned.len() == 10).await.unwrap();
    let asked = [ShardId::new(1), ShardId::new(77)];
    assert_eq!(handle.still_mine(&asked).await.unwrap(), [ShardId::new(1)]);

    handle.drain();
    view.wait_for(|view| view.planned.is_empty() && view.nobodys.len() == 10).await.unwrap();
    assert!(handle.leave(s(1)).await);
    assert_eq!(handle.trust(), Trust::Left);
    assert!(view.changed().await.is_err(), "nothing follows");
}
