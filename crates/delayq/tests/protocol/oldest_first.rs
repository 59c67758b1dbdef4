//! Ready queues: the oldest message first, and no entry stays forever.

use crate::action::{Action, Reserve};
use crate::bare_shard::NOW;
use crate::lab::{Lab, item};
use crate::snapshot::lossy;

const HOUR_MS: u64 = 3_600_000;

#[tokio::test]
async fn under_a_limit_the_oldest_is_ready_first_across_the_edge_of_an_hour() {
    let mut lab = Lab::new().await;
    // NOW is the edge of an hour.
    let dues = [NOW + HOUR_MS - 3, NOW + HOUR_MS - 2, NOW + HOUR_MS - 1, NOW + HOUR_MS, NOW + HOUR_MS + 1];
    for (n, due) in dues.into_iter().enumerate().rev() {
        lab.put("a", &[item(&n.to_string(), due)]).await;
    }
    lab.put("b", &[item("other", NOW + HOUR_MS)]).await;
    lab.at(HOUR_MS + 10);
    let limited = |limit| Action::Pump { epoch: Some(0), limit };
    // A topic's later hour waits for the earlier hour; other topics do not wait.
    assert_eq!(lab.words(limited(3)).await[3], "3");
    assert_eq!(lab.reserve("b").await.len(), 1);
    // Waiting hours use up no part of the limit.
    assert_eq!(lab.words(limited(2)).await[3], "2");
    while lab.words(limited(2)).await[0] == "more" {}
    let order: Vec<_> =
        lab.reserve("a").await.iter().map(|receipt| lossy(&receipt[2..receipt.len() - 4])).collect();
    assert_eq!(order, ["0", "1", "2", "3", "4"]);
}

#[tokio::test]
async fn messages_due_at_the_same_millisecond_become_ready_in_the_order_of_their_ids() {
    let mut lab = Lab::new().await;
    let put = ["b", "order-9", "a", "order-10", "\u{e9}"];
    for id in put {
        lab.put("a", &[item(id, NOW + 10)]).await;
    }
    lab.put("a", &[item("earlier", NOW + 9)]).await;
    // A message moved to the same time takes the place of its id.
    let changes = vec![(b"b".to_vec(), (NOW + 20).to_string(), None)];
    lab.words(Action::Reschedule { topic: "a".into(), changes }).await;
    let changes = vec![(b"b".to_vec(), (NOW + 10).to_string(), None)];
    lab.words(Action::Reschedule { topic: "a".into(), changes }).await;
    lab.at(10);
    lab.pump().await;
    // A message put when due comes last.
    lab.put("a", &[item("z", NOW + 10), item("aa", NOW)]).await;
    let order: Vec<_> =
        lab.reserve("a").await.iter().map(|receipt| lossy(&receipt[2..receipt.len() - 4])).collect();
    assert_eq!(order, ["earlier", "a", "b", "order-10", "order-9", "\u{e9}", "z", "aa"]);
}

/// Since when the oldest ready message is ready, and since when the oldest unhandled message is due.
async fn waiting_since(lab: &mut Lab) -> [String; 2] {
    let words = lab.words(Action::Count { topic: "a".to_owned() }).await;
    [words[16].clone(), words[17].clone()]
}

#[tokio::test]
async fn a_count_tells_since_when_messages_wait_for_a_consumer_and_since_when_one_holds_them() {
    let mut lab = Lab::new().await;
    let at = |ms: u64| (NOW + ms).to_string();
    lab.put("a", &[item("first", NOW + 10), item("second", NOW + 20)]).await;
    assert_eq!(waiting_since(&mut lab).await, ["", ""]);
    lab.at(15);
    lab.words(Action::Pump { epoch: Some(0), limit: 10 }).await;
    assert_eq!(waiting_since(&mut lab).await, [at(15), at(15)]);
    assert_eq!(lab.reserve("a").await.len(), 1);
    assert_eq!(waiting_since(&mut lab).await, [String::new(), at(10)], "held since it was due");
    lab.at(1_000);
    lab.words(Action::Pump { epoch: Some(0), limit: 10 }).await;
    assert_eq!(waiting_since(&mut lab).await, [at(1_000), at(10)]);
}

async fn entries(lab: &mut Lab) -> usize {
    lab.shard.snapshot().await.ready.get(&1).map_or(0, Vec::len)
}

#[tokio::test]
async fn messages_that_expire_in_a_paused_topic_leave_no_entries_behind() {
    let mut lab = Lab::new().await;
    lab.words(Action::configure("a", "paused", "1")).await;
    let mut items: Vec<_> = (0..300).map(|n| item(&n.to_string(), NOW)).collect();
    items.iter_mut().zip(1..).for_each(|(item, n)| item.expires = Some(NOW + n));
    lab.put("a", &items).await;
    assert_eq!(entries(&mut lab).await, 300);
    for ms in [100, 200, 300] {
        lab.at(ms);
        lab.pump().await;
    }
    assert_eq!(entries(&mut lab).await, 0);
}

#[tokio::test]
async fn a_thousand_reschedules_into_the_past_leave_one_entry() {
    let mut lab = Lab::new().await;
    lab.put("a", &[item("x", NOW)]).await;
    for n in 1..=1000 {
        let changes = vec![(b"x".to_vec(), (NOW - n).to_string(), None)];
        lab.words(Action::Reschedule { topic: "a".into(), changes }).await;
    }
    assert_eq!(entries(&mut lab).await, 1);
    // A message that stays in front only prevents the trimming of stale entries behind.
    for n in 1..=100 {
        lab.at(n);
        for due in [NOW + n, NOW + 10_000] {
            let changes = vec![(b"x".to_vec(), due.to_string(), None)];
            lab.words(Action::Reschedule { topic: "a".into(), changes }).await;
        }
    }
    assert_eq!(entries(&mut lab).await, 0);
}

#[tokio::test]
async fn what_is_cancelled_or_replaced_while_it_is_ready_leaves_no_entry_at_the_head() {
    let mut lab = Lab::new().await;
    for _ in 0..100 {
        let mut again = item("x", NOW);
        again.replace = true;
        lab.put("a", &[again]).await;
    }
    assert_eq!(entries(&mut lab).await, 1);
    lab.words(Action::Cancel { topic: "a".into(), ids: vec![b"x".to_vec()] }).await;
    assert_eq!(entries(&mut lab).await, 0);
    let reserve = Action::Reserve(Reserve::from("a", 100, None));
    assert_eq!(lab.words(reserve).await[8], "0");
}
