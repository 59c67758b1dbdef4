//! Redis comes back with older data: the owner's next pump notices the loss by the mark or the epoch.

use crate::bare_shard::NOW;
use crate::lab::Lab;
use delayq::protocol::Verb;

/// The first word of a pump by the owner of `epoch`, which left `mark`.
async fn pump(lab: &mut Lab, epoch: &str, mark: &str) -> String {
    let answer = lab.shard.call(Verb::Pump, &[epoch, "100", "", mark]).await.unwrap();
    String::from_utf8(answer[0].clone()).unwrap()
}

async fn set(lab: &mut Lab, field: &str, value: u64) {
    lab.shard.command(&[b"HSET", b"~meta", field.as_bytes(), value.to_string().as_bytes()]).await;
}

async fn noted(lab: &mut Lab) -> String {
    let overview = lab.shard.call(Verb::Overview, &["0"]).await.unwrap();
    String::from_utf8(overview[9].clone()).unwrap()
}

async fn gen_of(lab: &mut Lab) -> u64 {
    let found = lab.shard.command(&[b"HGET", b"~meta", b"gen"]).await;
    redis::from_redis_value(found).unwrap()
}

#[tokio::test]
async fn a_mark_is_the_time_of_a_pump_and_grows_whatever_the_clock_does() {
    let mut lab = Lab::new().await;
    let first = NOW.to_string();
    assert_eq!(pump(&mut lab, "0", "").await, format!("pumped {first}"));
    lab.at(999);
    assert_eq!(pump(&mut lab, "0", &first).await, format!("pumped {first}"), "a mark for each second");
    lab.at(1000);
    assert_eq!(pump(&mut lab, "0", &first).await, format!("pumped {}", NOW + 1000));
    assert_eq!(pump(&mut lab, "0", &first).await, format!("pumped {}", NOW + 1000), "an answer was lost");
    assert_eq!(pump(&mut lab, "0", "").await, format!("pumped {}", NOW + 1000), "another owner");
    lab.at(0);
    assert_eq!(pump(&mut lab, "0", "").await, format!("pumped {}", NOW + 1001), "the clock went back");
    assert_eq!(noted(&mut lab).await, "");
}

#[tokio::test]
async fn data_older_than_the_last_pump_is_named_once_with_the_time_that_it_is_from() {
    let mut lab = Lab::new().await;
    let (old, new) = (NOW - 60_000, NOW + 500);
    lab.at(500);
    set(&mut lab, "mark", old).await;
    let left = (NOW - 100).to_string();
    assert_eq!(pump(&mut lab, "0", &left).await, format!("pumped {new} older {old}"));
    assert_eq!(noted(&mut lab).await, format!("{old} {new}"));
    assert_eq!(gen_of(&mut lab).await, 2_097_152, "what was lost may have handed gens out");
    assert_eq!(pump(&mut lab, "0", &new.to_string()).await, format!("pumped {new}"), "it is named once");
}

#[tokio::test]
async fn a_claim_that_redis_lost_is_named_with_the_mark_before_it() {
    let mut lab = Lab::new().await;
    assert_eq!(pump(&mut lab, "0", "").await, format!("pumped {NOW}"));
    for _ in 0..3 {
        lab.shard.call(Verb::Claim, &["one", "0", ""]).await.unwrap();
    }
    set(&mut lab, "epoch", 1).await;
    lab.at(5000);
    assert_eq!(pump(&mut lab, "3", "").await, format!("pumped {} older {NOW}", NOW + 5000));
    assert_eq!(pump(&mut lab, "2", "").await, "fenced 3");
}
