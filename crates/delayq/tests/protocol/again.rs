//! Puts again: which due time and which content a pending message then has.

use crate::action::{Action, Item, Reserve};
use crate::bare_shard::{BareShard, NOW, scripts_with};
use crate::snapshot::lossy;
use delayq::UnixMillis;
use delayq::protocol::{Again, DueRule, Envelope, ExpectedGen, Verb};
use delayq_tests::redis_server::RedisServer;
use std::time::Duration;

/// A debounce by a second, with a longest wait of three.
fn debounce() -> Item {
    let again = Again { due: DueRule::Within(Duration::from_secs(3)), ..Again::default() };
    Item { replace: true, again, ..Item::new(b"a", "+1000") }
}

async fn put(shard: &mut BareShard, item: Item) -> String {
    let put = Action::Put { topic: "t".into(), items: vec![item] };
    lossy(&shard.call(Verb::Put, &put.args()).await.unwrap()[1])
}

fn at(shard: &mut BareShard, ms: u64) {
    shard.clock_us = Some((NOW + ms) * 1000);
}

async fn envelope(shard: &mut BareShard) -> Envelope {
    Envelope::decode(&shard.snapshot().await.bodies[&(1, b"a".to_vec())]).unwrap()
}

#[tokio::test]
async fn a_debounce_never_waits_longer_than_its_bound_from_the_first_put_on() {
    let server = RedisServer::start().await;
    let mut shard = BareShard::create(&server, "a", scripts_with(&[])).await;
    at(&mut shard, 0);
    assert_eq!(put(&mut shard, debounce()).await, "stored");
    for (ms, due) in [(900, 1900), (1800, 2800), (2500, 3000), (2900, 3000)] {
        at(&mut shard, ms);
        let old = envelope(&mut shard).await.due;
        assert_eq!(put(&mut shard, debounce()).await, format!("again delayed {old} {}", NOW + due));
    }
    at(&mut shard, 3100);
    assert_eq!(put(&mut shard, debounce()).await, format!("again ready {0} {0}", NOW + 3000));
}

#[tokio::test]
async fn the_bound_of_a_debounce_survives_a_reschedule_and_a_delivery() {
    let server = RedisServer::start().await;
    let mut shard = BareShard::create(&server, "a", scripts_with(&[])).await;
    at(&mut shard, 0);
    assert_eq!(put(&mut shard, debounce()).await, "stored");
    at(&mut shard, 500);
    let moved = shard.call(Verb::Reschedule, &["t", "a", "+0", ""]).await.unwrap();
    assert!(lossy(&moved[0]).starts_with("ready "), "{moved:?}");
    let reserve = Action::Reserve(Reserve::from("t", 1, Some(60_000)));
    let reserved = shard.call(Verb::Reserve, &reserve.args()).await.unwrap();
    assert_eq!(put(&mut shard, debounce()).await, "leased");
    at(&mut shard, 1000);
    let released = shard.call(Verb::Release, &[reserved[10].as_slice(), b"500", b"", b""]).await.unwrap();
    assert!(lossy(&released[0]).starts_with("delayed"), "{released:?}");
    at(&mut shard, 2500);
    assert_eq!(put(&mut shard, debounce()).await, format!("again delayed {} {}", NOW + 1500, NOW + 3000));
    assert_eq!(envelope(&mut shard).await.first.map(UnixMillis::get), Some(NOW));
}

#[tokio::test]
async fn a_put_again_that_keeps_the_content_changes_only_the_due_time() {
    let server = RedisServer::start().await;
    let mut shard = BareShard::create(&server, "a", scripts_with(&[])).await;
    at(&mut shard, 0);
    let first = Item { content: 2, max: 7, ..Item::new(b"a", "+1000") };
    assert_eq!(put(&mut shard, first).await, "stored");
    let before = envelope(&mut shard).await;
    let again = |due, text: &str| Item {
        replace: true,
        again: Again { due, keep: true, ..Again::default() },
        content: 1,
        max: 1,
        ..Item::new(b"a", text)
    };
    let unchanged = format!("again delayed {0} {0}", NOW + 1000);
    assert_eq!(put(&mut shard, again(DueRule::Later, "+500")).await, unchanged);
    assert_eq!(put(&mut shard, again(DueRule::Sooner, "+2000")).await, unchanged);
    assert_eq!(envelope(&mut shard).await, before, "nothing was written");
    let later = format!("again delayed {} {}", NOW + 1000, NOW + 2000);
    assert_eq!(put(&mut shard, again(DueRule::Later, "+2000")).await, later);
    let after = envelope(&mut shard).await;
    assert_eq!((after.payload, after.headers, after.max_attempts), (before.payload, before.headers, 7));
}

#[tokio::test]
async fn a_put_for_a_gen_replaces_only_the_message_of_that_gen_in_any_state_but_leased() {
    let server = RedisServer::start().await;
    let mut shard = BareShard::create(&server, "a", scripts_with(&[])).await;
    at(&mut shard, 0);
    let edit = |generation, due: &str| Item {
        replace: true,
        again: Again { generation: Some(generation), ..Again::default() },
        content: 1,
        ..Item::new(b"a", due)
    };
    let any = ExpectedGen::Any;
    assert_eq!(put(&mut shard, edit(any, "+1000")).await, "unknown");
    assert_eq!(put(&mut shard, Item::new(b"a", "+1000")).await, "stored");
    let first = ExpectedGen::Is(envelope(&mut shard).await.generation);
    let moved = format!("again delayed {} {}", NOW + 1000, NOW + 2000);
    assert_eq!(put(&mut shard, edit(first, "+2000")).await, moved);
    let second = envelope(&mut shard).await.generation;
    assert_eq!(put(&mut shard, edit(first, "+2000")).await, format!("again delayed {0} {0}", NOW + 2000));
    assert_eq!(put(&mut shard, edit(first, "+3000")).await, format!("changed delayed {}", NOW + 2000));
    assert_eq!(
        envelope(&mut shard).await.generation,
        second,
        "neither the repeat nor the stale put has written"
    );
    assert_eq!(put(&mut shard, edit(any, "+0")).await, format!("again ready {} {NOW}", NOW + 2000));
    let reserve = Action::Reserve(Reserve::from("t", 1, Some(60_000)));
    let reserved = shard.call(Verb::Reserve, &reserve.args()).await.unwrap();
    assert_eq!(put(&mut shard, edit(any, "+0")).await, "leased");
    shard.call(Verb::Bury, &[reserved[10].as_slice(), b"why"]).await.unwrap();
    let dead = ExpectedGen::Is(envelope(&mut shard).await.generation);
    assert_eq!(put(&mut shard, edit(first, "+1000")).await, format!("changed dead {NOW}"));
    assert_eq!(put(&mut shard, edit(dead, "+1000")).await, "stored");
    shard.call(Verb::Cancel, &["t", "a"]).await.unwrap();
    assert_eq!(put(&mut shard, edit(dead, "+1000")).await, format!("changed cancelled {NOW}"));
    assert_eq!(put(&mut shard, edit(any, "+1000")).await, "stored");
}
