//! Changes of a group that are limited to one of its topics.

use crate::action::Action;
use crate::bare_shard::NOW;
use crate::lab::{Lab, in_g, item};
use crate::snapshot::lossy;

async fn lab() -> Lab {
    let mut lab = Lab::new().await;
    for n in 0..4 {
        for topic in ["orders", "reminders"] {
            lab.put(topic, &[item(&format!("{topic}-{n}"), NOW + 1000 + n).in_group("g")]).await;
        }
    }
    lab
}

async fn dues(lab: &mut Lab, topic: &str) -> Vec<(String, u64)> {
    let shard = lab.shard.snapshot().await;
    let all = shard.buckets.iter().map(|(_, _, member, due)| (lossy(&member[..member.len() - 4]), *due));
    let mut all: Vec<_> = all.filter(|(id, _)| id.starts_with(topic)).collect();
    all.sort();
    all
}

fn expected(topic: &str, by: u64) -> Vec<(String, u64)> {
    (0..4).map(|n| (in_g(&format!("{topic}-{n}")), NOW + 1000 + n + by)).collect()
}

fn cancel(topic: &str, behind: (u64, Vec<u8>)) -> Action {
    Action::CancelGroup { group: "g".into(), topic: topic.into(), behind, limit: 3 }
}

fn shift(topic: &str, token: &str) -> Action {
    Action::ShiftGroup { group: "g".into(), topic: topic.into(), token: token.into(), by: 60_000, limit: 3 }
}

#[tokio::test]
async fn a_group_that_is_cancelled_in_one_topic_keeps_its_messages_of_the_others() {
    let mut lab = lab().await;
    let (mut behind, mut cancelled) = ((0, Vec::new()), 0);
    loop {
        let step = lab.run(cancel("orders", behind)).await.unwrap();
        cancelled += lossy(&step[2]).parse::<u32>().unwrap();
        let Ok(due) = lossy(&step[0]).parse() else { break };
        behind = (due, step[1].clone());
    }
    assert_eq!(cancelled, 4);
    assert_eq!(dues(&mut lab, "orders").await, []);
    assert_eq!(dues(&mut lab, "reminders").await, expected("reminders", 0));
    let nothing = ["", "", "0", "0", "0"];
    assert_eq!(
        lab.words(cancel("nobody", (0, Vec::new()))).await[2..],
        nothing[2..],
        "a topic that does not exist"
    );
    assert_eq!(dues(&mut lab, "reminders").await.len(), 4);
}

#[tokio::test]
async fn a_group_that_is_shifted_in_one_topic_leaves_its_messages_of_the_others_where_they_are() {
    let mut lab = lab().await;
    while lab.words(shift("orders", "t")).await[0] == "more" {}
    assert_eq!(dues(&mut lab, "orders").await, expected("orders", 60_000));
    assert_eq!(dues(&mut lab, "reminders").await, expected("reminders", 0));
    assert_eq!(lab.words(shift("orders", "t")).await, ["done", "0", "0"], "a repeat moves nothing twice");
}

#[tokio::test]
async fn a_shift_of_another_topic_under_the_same_token_is_another_shift() {
    let mut lab = lab().await;
    assert_eq!(lab.words(shift("orders", "t")).await[0], "more");
    for other in ["reminders", ""] {
        assert_eq!(lab.words(shift(other, "t")).await, ["busy", "0", "0"], "{other:?}");
    }
    while lab.words(shift("orders", "t")).await[0] == "more" {}
    while lab.words(shift("reminders", "t")).await[0] == "more" {}
    assert_eq!(dues(&mut lab, "orders").await, expected("orders", 60_000));
    assert_eq!(dues(&mut lab, "reminders").await, expected("reminders", 60_000));
}
