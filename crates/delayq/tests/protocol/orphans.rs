//! A shard that its owner does not pump: another timer may claim the shard, and no timer may while the owner pumps.

use crate::bare_shard::NOW;
use crate::lab::{Lab, item};
use delayq::protocol::Verb;

async fn word(lab: &mut Lab, verb: Verb, args: &[&str]) -> String {
    String::from_utf8(lab.shard.call(verb, args).await.unwrap()[0].clone()).unwrap()
}

/// A pump without an epoch, which moves long overdue messages.
async fn rescue(lab: &mut Lab) -> String {
    word(lab, Verb::Pump, &["", "100"]).await
}

async fn adopt(lab: &mut Lab, owner: &str) -> String {
    word(lab, Verb::Claim, &[owner, "orphaned", ""]).await
}

/// A shard of one owner, in which another timer found an overdue message after 11 s.
async fn overdue() -> Lab {
    let mut lab = Lab::new().await;
    lab.put("a", &[item("first", NOW + 500)]).await;
    assert_eq!(word(&mut lab, Verb::Claim, &["one", "0", ""]).await, "claimed");
    assert_eq!(adopt(&mut lab, "two").await, "owned", "nothing was overdue");
    lab.at(11_000);
    assert_eq!(rescue(&mut lab).await, "pumped");
    lab
}

#[tokio::test]
async fn a_shard_that_its_owner_has_not_pumped_for_long_is_claimed_by_one_other() {
    let mut lab = overdue().await;
    lab.at(15_999);
    assert_eq!(adopt(&mut lab, "two").await, "owned", "its owner may have been late once");
    lab.at(16_000);
    assert_eq!(adopt(&mut lab, "two").await, "claimed");
    assert_eq!(adopt(&mut lab, "three").await, "owned", "another one comes too late");
    assert_eq!(word(&mut lab, Verb::Pump, &["1", "100"]).await, "fenced 2");
    assert_eq!(word(&mut lab, Verb::Pump, &["2", "100"]).await, "pumped");
}

#[tokio::test]
async fn a_shard_that_its_owner_pumps_is_claimed_by_no_other_however_late_the_owner_is() {
    let mut lab = overdue().await;
    for at in [15_000, 30_000] {
        lab.put("a", &[item(&at.to_string(), NOW + at - 4_000)]).await;
        lab.at(at);
        assert_eq!(word(&mut lab, Verb::Pump, &["1", "100"]).await, "pumped");
        lab.at(at + 9_000);
        assert_eq!(adopt(&mut lab, "two").await, "owned");
    }
}

#[tokio::test]
async fn a_lock_keeps_out_a_claim_of_an_orphaned_shard() {
    let mut lab = overdue().await;
    assert_eq!(word(&mut lab, Verb::Claim, &["one", "60000", ""]).await, "claimed");
    lab.put("a", &[item("late", NOW + 12_000)]).await;
    lab.at(30_000);
    assert_eq!(rescue(&mut lab).await, "pumped");
    lab.at(40_000);
    assert_eq!(adopt(&mut lab, "two").await, "owned");
    lab.at(72_000);
    assert_eq!(adopt(&mut lab, "two").await, "claimed");
}

#[tokio::test]
async fn a_shard_found_overdue_while_the_clock_read_ahead_is_claimed_all_the_same() {
    let mut lab = overdue().await;
    assert_eq!(word(&mut lab, Verb::Pump, &["1", "100"]).await, "pumped");
    lab.put("a", &[item("ahead", NOW + 3_600_000)]).await;
    lab.at(3_611_000);
    assert_eq!(rescue(&mut lab).await, "pumped");
    lab.at(20_000);
    lab.put("a", &[item("back", NOW + 20_500)]).await;
    lab.at(31_000);
    assert_eq!(rescue(&mut lab).await, "pumped");
    lab.at(36_000);
    assert_eq!(adopt(&mut lab, "two").await, "claimed");
}
