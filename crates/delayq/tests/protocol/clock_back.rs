//! A clock that ran ahead and was corrected: times taken from that clock are limited to plausible ones.

use crate::action::{Action, Reserve};
use crate::bare_shard::NOW;
use crate::lab::{Lab, item};
use delayq::protocol::Verb;

const DAY_MS: u64 = 86_400_000;
const HOUR_MS: u64 = 3_600_000;

async fn wait_of(lab: &mut Lab) -> (String, String) {
    let answer = lab.words(Action::Reserve(Reserve::from("a", 100, None))).await;
    (answer[1].clone(), answer[8].clone())
}

#[tokio::test]
async fn a_rate_holds_nothing_back_for_longer_than_its_bucket_when_the_clock_goes_back() {
    let mut lab = Lab::new().await;
    lab.put("a", &[item("one", NOW), item("two", NOW)]).await;
    lab.words(Action::configure("a", "rate", "1")).await;
    lab.at(HOUR_MS);
    assert_eq!(wait_of(&mut lab).await, ("1000".into(), "1".into()));
    lab.at(0);
    assert_eq!(wait_of(&mut lab).await, ("1000".into(), "0".into()));
    lab.at(999);
    assert_eq!(wait_of(&mut lab).await, ("1".into(), "0".into()));
    lab.at(1000);
    assert_eq!(wait_of(&mut lab).await.1, "1");
}

#[tokio::test]
async fn a_rate_that_is_raised_does_not_wait_by_the_one_before() {
    let mut lab = Lab::new().await;
    lab.put("a", &[item("one", NOW), item("two", NOW)]).await;
    lab.words(Action::configure("a", "rate", "0.001")).await;
    assert_eq!(wait_of(&mut lab).await, ("1000000".into(), "1".into()));
    lab.words(Action::configure("a", "rate", "1000")).await;
    assert_eq!(wait_of(&mut lab).await, ("1".into(), "0".into()));
    lab.at(1);
    assert_eq!(wait_of(&mut lab).await.1, "1");
}

#[tokio::test]
async fn a_lease_taken_while_the_clock_read_a_day_ahead_does_not_last_a_day() {
    let mut lab = Lab::new().await;
    let items: Vec<_> = (0..250).map(|n| item(&n.to_string(), NOW)).collect();
    lab.put("a", &items).await;
    lab.at(DAY_MS);
    let all = Action::Reserve(Reserve::from("a", 250, Some(60_000)));
    lab.words(all).await;
    lab.at(0);
    while lab.pump().await[0] == "more" {}
    // The longest lease ever granted, counted from now.
    lab.at(60_000);
    let mut returned = 0;
    for _ in 0..3 {
        returned += lab.pump().await[4].parse::<u64>().unwrap();
    }
    assert_eq!(returned, 250);
}

#[tokio::test]
async fn no_lease_is_cut_that_a_holder_was_promised() {
    let mut lab = Lab::new().await;
    lab.put("a", &[item("long", NOW)]).await;
    let day = Action::Reserve(Reserve::from("a", 1, Some(DAY_MS)));
    let receipt = lab.run(day).await.unwrap()[10].clone();
    lab.put("a", &[item("short", NOW)]).await;
    lab.reserve("a").await;
    for ms in [0, 1000, 40_000] {
        lab.at(ms);
        lab.pump().await;
    }
    let extended = lab.words(Action::Extend { receipts: vec![receipt], lease: Some(1000) }).await;
    assert_eq!(extended, [(NOW + 41_000).to_string()]);
}

#[tokio::test]
async fn a_lock_taken_while_the_clock_read_ahead_keeps_nobody_out_for_longer_than_five_minutes() {
    let mut lab = Lab::new().await;
    lab.at(DAY_MS);
    lab.shard.call(Verb::Claim, &["one", "10000", ""]).await.unwrap();
    assert_eq!(lab.shard.call(Verb::Claim, &["two", "10000", ""]).await.unwrap()[0], b"owned");
    lab.at(0);
    assert_eq!(lab.shard.call(Verb::Claim, &["two", "10000", ""]).await.unwrap()[0], b"claimed");
}
