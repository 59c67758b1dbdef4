//! Throttles: an id is delivered at most once in each window, the first at once, the others at its end or not at all.

use crate::action::{Action, Item};
use crate::bare_shard::NOW;
use crate::lab::{Lab, item};
use crate::snapshot::Snapshot;
use delayq::protocol::{Again, DueRule};
use std::sync::Arc;
use std::time::Duration;

const WINDOW_MS: u64 = 10_000;

fn by(due: DueRule, content: u8) -> Item {
    let again = Again { due, ..Again::default() };
    Item { replace: true, again, content, ..item("a", "+0") }
}

/// A put that is due at once, as far as the throttle lets it.
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
