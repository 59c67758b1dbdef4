//! Throttles: an id is delivered at most once in each window, the first put at once, later puts at the end or never.

use crate::action::{Action, GiveBack, Item};
use crate::bare_shard::NOW;
use crate::lab::{Lab, item};
use crate::snapshot::Snapshot;
use delayq::protocol::{Again, DueRule, Envelope};
use std::sync::Arc;
use std::time::Duration;

const WINDOW_MS: u64 = 10_000;

fn by(due: DueRule, content: u8) -> Item {
    let again = Again { due, ..Again::default() };
    Item { replace: true, again, content, ..item("a", "+0") }
}

/// A put that is due at once, within the bounds of the throttle.
fn throttled(content: u8) -> Item {
    by(DueRule::Throttle(Duration::from_millis(WINDOW_MS)), content)
}

fn swallowed(content: u8) -> Item {
    by(DueRule::Swallow(Duration::from_millis(WINDOW_MS)), content)
}

async fn put(lab: &mut Lab, item: Item) -> String {
    lab.put("t", &[item]).await.remove(0)
}

async fn deliver(lab: &mut Lab) {
    lab.pump().await;
    let receipts = lab.reserve("t").await;
    assert_eq!(lab.words(Action::Ack { receipts }).await, ["delivered"]);
}

fn content(shard: &Arc<Snapshot>) -> usize {
    shard.envelope(&(1, b"a".to_vec())).unwrap().payload.len()
}

/// Leases a message, puts two more messages under the id, and ends the lease by `end`.
async fn succeeded(lab: &mut Lab, end: impl Fn(Vec<u8>) -> Action) -> Vec<String> {
    assert_eq!(put(lab, throttled(0)).await, "ready");
    let receipt = lab.reserve("t").await.remove(0);
    lab.at(100);
    let behind = format!("again leased {NOW} {}", NOW + WINDOW_MS);
    assert_eq!(put(lab, throttled(1)).await, behind);
    assert_eq!(put(lab, throttled(2)).await, behind);
    let shard = lab.shard.snapshot().await;
    assert_eq!(shard.number("stats", "accepted:1"), 1, "it is not accepted yet");
    lab.words(end(receipt)).await
}

fn given_back(receipt: Vec<u8>) -> Action {
    Action::Release { all: vec![GiveBack { receipt, delay: Some(500), keep: false }] }
}

/// The content, the due time, the state, and the counters of accepted, delivered and replaced messages.
async fn there(lab: &mut Lab) -> (usize, u64, &'static str, [i64; 3]) {
    let shard = lab.shard.snapshot().await;
    assert_eq!(shard.index("leases").len(), 0);
    let counted = ["accepted:1", "delivered:1", "replaced:1"].map(|counter| shard.number("stats", counter));
    let stored = shard.envelope(&(1, b"a".to_vec())).unwrap();
    assert_eq!((stored.delivery, stored.attempt), (0, 0), "its attempts begin");
    (content(&shard), stored.due.get(), stored.state.word(), counted)
}

#[tokio::test]
async fn of_many_throttled_puts_the_first_and_then_the_last_of_each_window_is_delivered() {
    let mut lab = Lab::new().await;
    assert_eq!(put(&mut lab, throttled(0)).await, "ready");
    assert_eq!(put(&mut lab, throttled(1)).await, format!("again ready {NOW} {NOW}"), "not delivered yet");
    deliver(&mut lab).await;
    lab.at(2000);
    let end = NOW + WINDOW_MS;
    assert_eq!(put(&mut lab, throttled(2)).await, format!("again delivered {NOW} {end}"));
    assert_eq!(put(&mut lab, throttled(1)).await, format!("again delayed {end} {end}"));
    assert_eq!(content(&lab.shard.snapshot().await), 1, "the last put counts");
    let kept = Item { again: Again { keep: true, ..throttled(2).again }, ..throttled(2) };
    assert_eq!(put(&mut lab, kept).await, format!("again delayed {end} {end}"));
    assert_eq!(content(&lab.shard.snapshot().await), 1);
    lab.at(WINDOW_MS + 500);
    deliver(&mut lab).await;
    let behind = format!("again delivered {end} {}", end + WINDOW_MS);
    assert_eq!(
        put(&mut lab, throttled(0)).await,
        behind,
        "the window begins with the due time, not with the delivery"
    );
    let next = lab.shard.snapshot().await.envelope(&(1, b"a".to_vec())).unwrap().due;
    assert_eq!(next.get(), end + WINDOW_MS);
}

#[tokio::test]
async fn a_throttled_put_that_is_due_behind_the_window_stays_there() {
    let mut lab = Lab::new().await;
    assert_eq!(put(&mut lab, throttled(0)).await, "ready");
    deliver(&mut lab).await;
    assert_eq!(put(&mut lab, Item { due: "+50000".into(), ..throttled(0) }).await, "stored");
    assert_eq!(lab.shard.snapshot().await.buckets[0].3, NOW + 50_000);
}

#[tokio::test]
async fn a_put_is_swallowed_while_its_id_is_pending_leased_or_delivered_within_the_window() {
    let mut lab = Lab::new().await;
    assert_eq!(put(&mut lab, swallowed(0)).await, "ready");
    assert_eq!(put(&mut lab, swallowed(1)).await, format!("exists ready {NOW}"));
    let receipts = lab.reserve("t").await;
    assert_eq!(put(&mut lab, swallowed(1)).await, format!("exists leased {NOW}"));
    lab.at(100);
    assert_eq!(lab.words(Action::Ack { receipts }).await, ["delivered"]);
    lab.at(WINDOW_MS - 1);
    assert_eq!(put(&mut lab, swallowed(1)).await, format!("exists delivered {}", NOW + 100));
    lab.at(WINDOW_MS);
    assert_eq!(put(&mut lab, swallowed(1)).await, "ready");
}

#[tokio::test]
async fn a_dead_letter_delays_a_throttled_put_and_swallows_none() {
    let behind = format!("again dead {NOW} {}", NOW + WINDOW_MS);
    for (item, wanted) in [(throttled(0), &*behind), (swallowed(0), "ready")] {
        let mut lab = Lab::new().await;
        assert_eq!(put(&mut lab, item.clone()).await, "ready");
        let receipts = lab.reserve("t").await;
        assert_eq!(lab.words(Action::Bury { receipts }).await, ["buried"]);
        assert_eq!(put(&mut lab, item).await, wanted);
        let shard = lab.shard.snapshot().await;
        assert_eq!((shard.dead.len(), shard.reasons.len()), (0, 0), "the put has replaced the dead letter");
    }
}

#[tokio::test]
async fn a_cancelled_message_leaves_no_window() {
    for item in [throttled(0), swallowed(0)] {
        let mut lab = Lab::new().await;
        assert_eq!(put(&mut lab, item.clone()).await, "ready");
        lab.words(Action::Cancel { topic: "t".into(), ids: vec![b"a".to_vec()] }).await;
        assert_eq!(put(&mut lab, item).await, "ready");
    }
}

#[tokio::test]
async fn the_repeat_of_a_throttled_put_that_was_delivered_delivers_nothing_more() {
    let mut lab = Lab::new().await;
    assert_eq!(put(&mut lab, throttled(0)).await, "ready");
    lab.at(1);
    deliver(&mut lab).await;
    let repeat = |content| Item { tried: Some(NOW), ..throttled(content) };
    assert_eq!(put(&mut lab, repeat(0)).await, format!("exists delivered {}", NOW + 1));
    let behind = format!("again delivered {NOW} {}", NOW + WINDOW_MS);
    assert_eq!(put(&mut lab, repeat(1)).await, behind, "the first try of other content was not delivered");
}

#[tokio::test]
async fn a_clock_that_was_set_back_delays_a_throttled_put_by_one_window() {
    let mut lab = Lab::new().await;
    lab.at(3_600_000);
    assert_eq!(put(&mut lab, throttled(0)).await, "ready");
    deliver(&mut lab).await;
    lab.at(0);
    let behind = format!("again delivered {} {}", NOW + 3_600_000, NOW + WINDOW_MS);
    assert_eq!(put(&mut lab, throttled(0)).await, behind);
    assert_eq!(lab.shard.snapshot().await.buckets[0].3, NOW + WINDOW_MS);
}

#[tokio::test]
async fn a_window_that_outlasts_the_memory_of_the_topic_is_refused_and_so_is_a_generated_id() {
    let mut lab = Lab::new().await;
    for (rule, word) in [
        (DueRule::Throttle as fn(Duration) -> DueRule, "throttle"),
        (DueRule::Swallow as fn(Duration) -> DueRule, "swallow"),
    ] {
        let window = |ms| by(rule(Duration::from_millis(ms)), 0);
        let refused =
            format!("refused {word} of 60001 ms: the topic remembers own ids for 60000 ms (remember_own_ms)");
        assert_eq!(put(&mut lab, window(60_001)).await, refused);
        let generated = Item { id: vec![1; 16], ..window(1) };
        assert_eq!(put(&mut lab, generated).await, format!("refused {word} with a generated id"));
        assert!(lab.shard.snapshot().await.bodies.is_empty());
    }
    lab.words(Action::configure("t", "remember_own_ms", "60001")).await;
    assert_eq!(put(&mut lab, by(DueRule::Throttle(Duration::from_millis(60_001)), 0)).await, "ready");
}

#[tokio::test]
async fn the_last_put_during_a_lease_takes_the_place_of_the_message_that_is_delivered() {
    let mut lab = Lab::new().await;
    let words = succeeded(&mut lab, |receipt| Action::Ack { receipts: vec![receipt] }).await;
    assert_eq!(words, ["delivered"]);
    assert_eq!(there(&mut lab).await, (2, NOW + WINDOW_MS, "delayed", [2, 1, 0]));
    lab.at(WINDOW_MS);
    deliver(&mut lab).await;
    let shard = lab.shard.snapshot().await;
    assert_eq!(shard.number("stats", "delivered:1"), 2);
    assert_eq!(shard.envelope(&(1, b"a".to_vec())).unwrap().state.word(), "delivered");
}

#[tokio::test]
async fn a_message_that_is_given_back_is_retried_with_the_content_of_the_last_put() {
    let mut lab = Lab::new().await;
    let words = succeeded(&mut lab, given_back).await;
    assert_eq!(words, [format!("delayed {}", NOW + 600)]);
    assert_eq!(there(&mut lab).await, (2, NOW + 600, "delayed", [2, 0, 1]));

    let mut lab = Lab::new().await;
    lab.words(Action::configure("t", "backoff", b"\x01\0\0\x03\xe8")).await;
    succeeded(&mut lab, |_| Action::Pump { epoch: Some(0), limit: 500 }).await;
    lab.at(5000);
    lab.pump().await;
    let (content, .., counted) = there(&mut lab).await;
    assert_eq!((content, counted), (2, [2, 0, 1]), "the lease ran out");
}

#[tokio::test]
async fn a_dead_letter_gives_way_to_the_last_put() {
    let mut lab = Lab::new().await;
    let words = succeeded(&mut lab, |receipt| Action::Bury { receipts: vec![receipt] }).await;
    assert_eq!(words, ["buried"]);
    assert_eq!(there(&mut lab).await, (2, NOW + WINDOW_MS, "delayed", [2, 0, 1]));
    let shard = lab.shard.snapshot().await;
    assert_eq!((shard.dead.len(), shard.reasons.len(), shard.number("stats", "buried:1")), (0, 0, 1));
}

#[tokio::test]
async fn a_cancel_takes_the_puts_before_it_along_and_not_those_behind_it() {
    let cancel = || Action::Cancel { topic: "t".into(), ids: vec![b"a".to_vec()] };
    let mut lab = Lab::new().await;
    assert_eq!(succeeded(&mut lab, |_| cancel()).await, ["leased"]);
    let shard = lab.shard.snapshot().await;
    assert_eq!((content(&shard), shard.successor(&(1, b"a".to_vec()))), (0, None));
    assert_eq!(put(&mut lab, throttled(1)).await, format!("again leased {NOW} {}", NOW + WINDOW_MS));
    let receipt = shard.index("leases").keys().next().unwrap().clone();
    assert_eq!(lab.words(given_back(receipt)).await, ["cancelled"]);
    assert_eq!(there(&mut lab).await, (1, NOW + WINDOW_MS, "delayed", [2, 0, 0]));
}

#[tokio::test]
async fn a_next_message_that_the_ack_puts_wins_over_a_throttled_one() {
    let mut lab = Lab::new().await;
    let next = |receipt| Item { ack: Some(receipt), content: 1, ..item("a", "+500") };
    let words =
        succeeded(&mut lab, |receipt| Action::Put { topic: "t".into(), items: vec![next(receipt)] }).await;
    assert_eq!(words[1], "stored");
    assert_eq!(there(&mut lab).await, (1, NOW + 600, "delayed", [2, 1, 0]));
}

#[tokio::test]
async fn a_leased_message_is_held_as_before_and_shown_with_its_mark_while_a_put_waits_behind_it() {
    let mut lab = Lab::new().await;
    let peek = Action::Peek { topic: "t".into(), ids: vec![b"a".to_vec()] };
    assert_eq!(put(&mut lab, throttled(0)).await, "ready");
    let receipt = lab.reserve("t").await.remove(0);
    let before = Envelope::decode(&lab.run(peek.clone()).await.unwrap()[1]).unwrap();
    put(&mut lab, throttled(1)).await;
    let after = Envelope::decode(&lab.run(peek).await.unwrap()[1]).unwrap();
    assert_eq!(after, Envelope { has_successor: true, ..before });
    let extend = Action::Extend { receipts: vec![receipt.clone()], lease: Some(9000) };
    assert_eq!(lab.words(extend).await, [(NOW + 9000).to_string()]);
    assert_eq!(put(&mut lab, Item { again: Again::default(), ..throttled(2) }).await, "leased");
    let kept = Item { again: Again { keep: true, ..throttled(2).again }, ..throttled(2) };
    assert_eq!(put(&mut lab, kept).await, format!("again leased {NOW} {}", NOW + WINDOW_MS));
    assert_eq!(lab.shard.snapshot().await.successor(&(1, b"a".to_vec())).unwrap().payload.len(), 1);
    assert_eq!(lab.words(Action::Ack { receipts: vec![receipt] }).await, ["delivered"]);
    assert_eq!(there(&mut lab).await, (1, NOW + WINDOW_MS, "delayed", [2, 1, 0]));
}

#[tokio::test]
async fn an_old_entry_of_a_marker_is_forgotten_although_a_put_waits_behind_the_leased_message() {
    let mut lab = Lab::new().await;
    assert_eq!(put(&mut lab, throttled(0)).await, "ready");
    lab.reserve("t").await;
    put(&mut lab, throttled(1)).await;
    // An interruption may leave such an entry.
    lab.shard.command(&[b"ZADD", b"~markers", b"1", b"1:a"]).await;
    lab.shard.command(&[b"ZADD", b"~alarms", b"1", b"markers"]).await;
    lab.pump().await;
    let shard = lab.shard.snapshot().await;
    assert_eq!((shard.index("markers").len(), shard.index("leases").len()), (0, 1));
    assert!(shard.successor(&(1, b"a".to_vec())).is_some());
}

#[tokio::test]
async fn the_repeat_of_a_throttled_put_finds_its_message_leased_but_not_one_that_was_leased_before() {
    let mut lab = Lab::new().await;
    lab.at(10);
    assert_eq!(put(&mut lab, throttled(0)).await, "ready");
    lab.reserve("t").await;
    let repeat = |tried| Item { tried: Some(NOW + tried), ..throttled(0) };
    assert_eq!(put(&mut lab, repeat(10)).await, format!("exists leased {}", NOW + 10));
    let behind = format!("again leased {} {}", NOW + 10, NOW + 10 + WINDOW_MS);
    assert_eq!(put(&mut lab, repeat(11)).await, behind, "the first try came after that delivery began");
}

#[tokio::test]
async fn a_successor_that_has_expired_by_the_end_of_the_lease_leaves_the_message_alone() {
    let mut lab = Lab::new().await;
    assert_eq!(put(&mut lab, throttled(0)).await, "ready");
    let receipt = lab.reserve("t").await.remove(0);
    let expires = Some(NOW + WINDOW_MS + 1);
    assert!(put(&mut lab, Item { expires, ..throttled(2) }).await.starts_with("again leased"));
    lab.at(WINDOW_MS + 1);
    assert_eq!(lab.words(given_back(receipt)).await, [format!("delayed {}", NOW + WINDOW_MS + 501)]);
    let shard = lab.shard.snapshot().await;
    let stored = shard.envelope(&(1, b"a".to_vec())).unwrap();
    assert_eq!((content(&shard), stored.expires, stored.attempt), (0, None, 1));
    assert_eq!((shard.number("stats", "accepted:1"), shard.index("expiries").len()), (1, 0));
}
