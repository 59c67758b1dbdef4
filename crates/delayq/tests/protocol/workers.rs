//! Workers that own shards: their locks refuse workers only, and timers win.

use crate::bare_shard::NOW;
use crate::lab::{Lab, item};
use delayq::protocol::Verb;
use std::ops::RangeInclusive;

const ONE: &str = "worker/one";
const TWO: &str = "worker/two";
const LOCK: &str = "10000";

async fn answer(lab: &mut Lab, verb: Verb, args: &[&str]) -> Vec<String> {
    let answer = lab.shard.call(verb, args).await.unwrap();
    answer.into_iter().map(|item| String::from_utf8(item).unwrap()).collect()
}

async fn claim(lab: &mut Lab, owner: &str, lock: &str) -> String {
    answer(lab, Verb::Claim, &[owner, lock, ""]).await.swap_remove(0)
}

async fn pump(lab: &mut Lab, epoch: &str) -> String {
    answer(lab, Verb::Pump, &[epoch, "100"]).await.swap_remove(0)
}

#[tokio::test]
async fn a_lock_keeps_out_another_worker_until_it_ends_and_says_when() {
    let mut lab = Lab::new().await;
    assert_eq!(claim(&mut lab, ONE, LOCK).await, "claimed");
    lab.at(3_000);
    let refused = answer(&mut lab, Verb::Claim, &[TWO, LOCK, ""]).await;
    assert_eq!((&*refused[0], &*refused[1], &*refused[3], &*refused[5]), ("owned", "1", ONE, "7000"));
    assert_eq!(claim(&mut lab, ONE, LOCK).await, "renewed");
    lab.at(12_999);
    assert_eq!(claim(&mut lab, TWO, LOCK).await, "owned");
    lab.at(13_000);
    assert_eq!(claim(&mut lab, TWO, LOCK).await, "claimed");
    assert_eq!(pump(&mut lab, "1").await, "fenced 2");
}

#[tokio::test]
async fn a_timer_with_a_lock_or_without_takes_what_a_worker_owns() {
    for lock in ["0", "15000"] {
        let mut lab = Lab::new().await;
        assert_eq!(claim(&mut lab, ONE, LOCK).await, "claimed");
        assert_eq!(claim(&mut lab, "timer", lock).await, "claimed", "lock {lock}");
        assert_eq!(pump(&mut lab, "1").await, "fenced 2");
        lab.at(5_000);
        for worker in [ONE, TWO] {
            assert_eq!(claim(&mut lab, worker, LOCK).await, "owned", "lock {lock}");
        }
    }
}

#[tokio::test]
async fn a_shard_of_a_timer_that_pumps_late_but_pumps_goes_to_no_worker() {
    let mut lab = Lab::new().await;
    assert_eq!(claim(&mut lab, "timer", "0").await, "claimed");
    for at in [10_000, 20_000, 30_000] {
        lab.put("a", &[item(&at.to_string(), NOW + at - 9_000)]).await;
        lab.at(at);
        assert_eq!(claim(&mut lab, ONE, LOCK).await, "owned");
        assert_eq!(pump(&mut lab, "1").await, "pumped");
        lab.at(at + 6_000);
        assert_eq!(claim(&mut lab, ONE, LOCK).await, "owned");
    }
    lab.at(86_400_000);
    assert_eq!(claim(&mut lab, ONE, LOCK).await, "owned", "a shard without messages needs no owner");
}

/// Seconds from a message's due time until a worker that claims each 5 s owns the shard of a dead timer.
async fn taken_after(lab: &mut Lab, from: u64) -> u64 {
    for second in (from..).step_by(5) {
        lab.at(second * 1_000);
        if claim(lab, ONE, LOCK).await == "claimed" {
            return second;
        }
    }
    unreachable!("the loop has no end")
}

#[tokio::test]
async fn a_shard_of_a_timer_that_died_goes_to_a_worker_once_a_message_is_overdue() {
    const BOUND: RangeInclusive<u64> = 10..=15;
    for first in 0..5 {
        let mut lab = Lab::new().await;
        lab.put("a", &[item("due", NOW + 500)]).await;
        assert_eq!(claim(&mut lab, "timer", "0").await, "claimed");
        let after = taken_after(&mut lab, first).await;
        assert!(BOUND.contains(&after), "after {after} s");
        assert_eq!(pump(&mut lab, "1").await, "fenced 2");
        assert_eq!(pump(&mut lab, "2").await, "pumped");
    }
}

#[tokio::test]
async fn a_look_from_before_the_clock_was_set_back_keeps_no_worker_out() {
    let mut lab = Lab::new().await;
    lab.put("a", &[item("due", NOW + 500)]).await;
    assert_eq!(claim(&mut lab, "timer", "0").await, "claimed");
    lab.at(3_600_000);
    assert_eq!(claim(&mut lab, ONE, LOCK).await, "owned");
    assert!((15..=25).contains(&taken_after(&mut lab, 10).await));
}

#[tokio::test]
async fn who_gives_a_shard_back_lets_the_next_one_in_and_keeps_its_epoch_until_then() {
    for (owner, lock) in [("timer", "0"), ("timer", "15000"), (ONE, LOCK)] {
        let mut lab = Lab::new().await;
        assert_eq!(claim(&mut lab, owner, lock).await, "claimed");
        assert_eq!(claim(&mut lab, TWO, LOCK).await, "owned");
        assert_eq!(claim(&mut lab, TWO, "free").await, "owned", "not its own");
        assert_eq!(claim(&mut lab, TWO, LOCK).await, "owned");
        assert_eq!(claim(&mut lab, owner, "free").await, "free");
        assert_eq!(pump(&mut lab, "1").await, "pumped");
        assert_eq!(claim(&mut lab, owner, "free").await, "free", "once more");
        assert_eq!(claim(&mut lab, TWO, LOCK).await, "claimed", "{owner} with {lock}");
        assert_eq!(claim(&mut lab, owner, "free").await, "owned");
        assert_eq!(pump(&mut lab, "2").await, "pumped");
    }
}

#[tokio::test]
async fn a_worker_without_a_lock_is_refused_by_name() {
    let mut lab = Lab::new().await;
    for (lock, why) in [("0", "the lock in ms"), ("orphaned", "a worker claims with a lock")] {
        let refused = lab.shard.call(Verb::Claim, &[ONE, lock, ""]).await.unwrap_err();
        assert!(refused.contains(why), "{refused}");
    }
}

#[tokio::test]
async fn a_timer_adopts_what_a_worker_owns_and_does_not_pump() {
    let mut lab = Lab::new().await;
    lab.put("a", &[item("due", NOW + 500)]).await;
    assert_eq!(claim(&mut lab, ONE, "60000").await, "claimed");
    lab.at(11_000);
    assert_eq!(pump(&mut lab, "").await, "pumped");
    lab.at(16_000);
    assert_eq!(claim(&mut lab, "timer", "orphaned").await, "claimed");
}
