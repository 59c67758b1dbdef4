//! Members that an operator keeps without shards.

use crate::fleet::{Floor, Member};
use crate::scope::Scope;
use delayq_cluster::{ClusterError, DrainOutcome, Operator, UndrainOutcome};
use delayq_tests::deadline::{LONG, wait_until};

#[tokio::test(flavor = "multi_thread")]
async fn a_drained_member_has_no_shards_until_it_is_undrained_over_its_restart_and_a_change_of_the_leader() {
    let scope = Scope::shared().await;
    let floor = Floor::new();
    let operator = Operator::new(&scope.config("operator", 24)).unwrap();
    let leader = Member::join(scope.config("a", 24), &floor).await;
    let member = Member::join(scope.config("b", 24), &floor).await;
    let third = Member::join(scope.config("c", 24), &floor).await;
    floor.until("all share", |work| work.balanced(24, &["a", "b", "c"])).await;

    assert_eq!(operator.drain("nobody", "", false).await.unwrap(), DrainOutcome::Unknown);
    assert_eq!(operator.drain("b", "kernel", false).await.unwrap(), DrainOutcome::Drained);
    floor.until("a and c share", |work| work.balanced(24, &["a", "c"])).await;
    assert_eq!(operator.drain("b", "again", false).await.unwrap(), DrainOutcome::Already);
    let view = member.handle.view();
    assert!(view.drained && view.is_spare() && member.is_trusted(), "{view:?}");
    let overview = operator.overview().await.unwrap();
    let drained: Vec<bool> = overview.members.iter().map(|member| member.drained).collect();
    assert_eq!(drained, [false, true, false]);
    let drain = &overview.drains[0];
    assert_eq!((drain.name.as_str(), drain.reason.as_str(), drain.registered), ("b", "kernel", true));

    member.leave().await;
    assert!(!operator.overview().await.unwrap().drains[0].registered);
    // The new leader joined after the drain was written.
    leader.leave().await;
    third.leave().await;
    let heir = Member::join(scope.config("d", 24), &floor).await;
    let back = Member::join(scope.config("b", 24), &floor).await;
    floor.until("d owns all", |work| work.balanced(24, &["d"])).await;
    wait_until("b to know", LONG, async || back.handle.view().drained && back.handle.view().is_spare()).await;
    assert_eq!(floor.work().of("b"), 0);

    assert_eq!(operator.undrain("b").await.unwrap(), UndrainOutcome::Undrained);
    floor.until("d and b share", |work| work.balanced(24, &["d", "b"])).await;
    assert!(!back.handle.view().drained);
    assert_eq!(operator.undrain("b").await.unwrap(), UndrainOutcome::NotDrained);
    assert_eq!(operator.undrain("a").await.unwrap(), UndrainOutcome::Unknown);
    drop((heir, back));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_operators_at_once_do_not_drain_the_last_two_members_without_consent() {
    let scope = Scope::shared().await;
    let floor = Floor::new();
    let operator = || Operator::new(&scope.config("operator", 8)).unwrap();
    let _one = Member::join(scope.config("a", 8), &floor).await;
    let _other = Member::join(scope.config("b", 8), &floor).await;
    floor.until("a and b share", |work| work.balanced(8, &["a", "b"])).await;
    for _ in 0..20 {
        let (first, second) = (operator(), operator());
        let (first, second) = tokio::join!(first.drain("a", "", false), second.drain("b", "", false));
        let mut outcomes = [first.unwrap(), second.unwrap()];
        outcomes.sort_by_key(|outcome| *outcome == DrainOutcome::NobodyLeft);
        assert_eq!(outcomes, [DrainOutcome::Drained, DrainOutcome::NobodyLeft]);
        for name in ["a", "b"] {
            operator().undrain(name).await.unwrap();
        }
    }
    let operator = operator();
    assert_eq!(operator.drain("a", "", false).await.unwrap(), DrainOutcome::Drained);
    floor.until("b owns all", |work| work.balanced(8, &["b"])).await;
    assert_eq!(operator.drain("b", "", true).await.unwrap(), DrainOutcome::Drained);
    floor.until("nobody owns anything", |work| work.of("a") + work.of("b") == 0).await;
    operator.undrain("b").await.unwrap();
    floor.until("b owns all", |work| work.balanced(8, &["b"])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn drains_that_cannot_be_read_are_named_and_neither_followed_nor_written_over() {
    let scope = Scope::shared().await;
    let floor = Floor::new();
    let mut tool = scope.tool().await;
    tool.put(scope.key("drains"), r#"{"format":99}"#, None).await.unwrap();
    let _one = Member::join(scope.config("a", 8), &floor).await;
    let _other = Member::join(scope.config("b", 8), &floor).await;
    floor.until("a and b share", |work| work.balanced(8, &["a", "b"])).await;
    let operator = Operator::new(&scope.config("operator", 8)).unwrap();
    assert_eq!(operator.overview().await.unwrap().unreadable, [scope.key("drains")]);
    let error = operator.drain("a", "", false).await.unwrap_err();
    assert!(matches!(error, ClusterError::Document { .. }), "{error}");
    assert!(error.to_string().contains("format 99"), "{error}");
    tool.delete(scope.key("drains"), None).await.unwrap();
    assert_eq!(operator.drain("a", "", false).await.unwrap(), DrainOutcome::Drained);
    floor.until("b owns all", |work| work.balanced(8, &["b"])).await;
}
