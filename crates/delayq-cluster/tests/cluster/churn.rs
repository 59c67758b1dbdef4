//! Members come, drain, die and lose their leases in random order; in the end each shard has one worker.
//!
//! The test prints the seed; `DELAYQ_TEST_SEED` repeats a run, `DELAYQ_TEST_STEPS` makes the run longer.

use crate::fleet::{Floor, Member, s};
use crate::scope::Scope;
use delayq_tests::timing::{Timing, conclusive};
use std::time::Duration;
use tokio::task::JoinSet;

const SHARDS: u16 = 96;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

async fn all_left(leaving: &mut JoinSet<()>) {
    while let Some(left) = leaving.join_next().await {
        left.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn random_churn_ends_with_one_worker_a_shard() {
    let seed = number("DELAYQ_TEST_SEED").unwrap_or_else(|| fastrand::u64(..));
    println!("DELAYQ_TEST_SEED={seed}");
    let mut dice = fastrand::Rng::with_seed(seed);
    let scope = Scope::shared().await;
    let floor = Floor::new();
    let mut members: Vec<Member> = Vec::new();
    let mut leaving = JoinSet::new();
    for step in 0..number("DELAYQ_TEST_STEPS").unwrap_or(30) {
        match dice.u32(..10) {
            0..=4 => {
                let mut config = scope.config(&format!("m{step}"), SHARDS);
                // Long enough that a slow machine costs no lease; a dead member makes the end wait that long.
                config.etcd.lease_ttl = s(6).into();
                members.push(Member::join(config, &floor).await);
            }
            action if members.len() > 1 => {
                let member = members.swap_remove(dice.usize(..members.len()));
                if action < 8 {
                    leaving.spawn(member.leave());
                } else {
                    member.die();
                }
            }
            _ => {}
        }
        // Some steps meet a fleet on the move, some a fleet that has settled more or less.
        match (dice.u32(..4), members.last()) {
            (0, Some(member)) => {
                floor.until("it works", |work| work.of(&member.name) > 0).await;
            }
            (1, _) => all_left(&mut leaving).await,
            _ => {}
        }
    }
    all_left(&mut leaving).await;
    let names: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
    floor.until("all share", |work| work.balanced(SHARDS, &names)).await;
    assert!(members.iter().all(|member| member.handle.stats().leases_lost == 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_third_member_joins_a_pair_and_no_shard_stands_still_for_long() {
    conclusive(async || {
        let scope = Scope::shared().await;
        let floor = Floor::new();
        let _first = Member::join(scope.config("a", 256), &floor).await;
        let _second = Member::join(scope.config("b", 256), &floor).await;
        floor.until("a and b share", |work| work.balanced(256, &["a", "b"])).await;
        floor.forget_gaps();
        let _third = Member::join(scope.config("c", 256), &floor).await;
        floor.until("three share", |work| work.balanced(256, &["a", "b", "c"])).await;
        let work = floor.work();
        println!(
            "a third member joined 256 shards: each without a worker for {:?} at most",
            work.longest_gap
        );
        Timing::of("the time without a worker", work.longest_gap, Duration::ZERO, Duration::ZERO)
    })
    .await;
}
