//! Rules for every script, and for the calls of owners and operators.

use super::{bare, put, reserve, run};
use crate::action::{Action, Item, Purge};
use crate::bare_shard::{BareShard, NOW};
use crate::snapshot::lossy;
use delayq::protocol::{Scripts, Verb};
use delayq_tests::redis_server::RedisServer;
use std::collections::BTreeSet;
use std::sync::Arc;

const NONE: [&[u8]; 0] = [];

/// Scripts that answer callers of any layout.
const APART: [Verb; 6] = [Verb::Discard, Verb::Grow, Verb::Init, Verb::Layout, Verb::Move, Verb::Probe];

#[tokio::test]
async fn every_script_refuses_a_shard_that_was_never_created_and_writes_nothing() {
    let server = RedisServer::start().await;
    let mut shard = BareShard::uncreated(&server, "u", Arc::new(Scripts::published())).await;
    for &verb in Verb::ALL {
        if APART.contains(&verb) {
            continue;
        }
        let why = shard.call(verb, &NONE).await.unwrap_err();
        assert!(why.starts_with("DQUNINITIALISED {u:0}:meta"), "{}: {why}", verb.name());
    }
    let keys: Vec<String> = server.command(&["KEYS", "*"]).await;
    assert!(keys.is_empty(), "{keys:?}");
}

#[tokio::test]
async fn every_script_refuses_a_caller_of_another_layout() {
    let server = RedisServer::start().await;
    let mut shard = bare(&server).await;
    shard.command(&[b"HSET", b"~meta", b"layout", b"2"]).await;
    let before = format!("{:?}", shard.snapshot().await);
    for &verb in Verb::ALL {
        if APART.contains(&verb) {
            continue;
        }
        let why = shard.call(verb, &NONE).await.unwrap_err();
        assert!(why.starts_with("DQLAYOUT 2 1 - is the layout of"), "{}: {why}", verb.name());
    }
    assert_eq!(format!("{:?}", shard.snapshot().await), before);
}

#[test]
fn no_script_touches_its_second_key_or_takes_the_time_from_its_caller() {
    let scripts = delayq::protocol::Scripts::published();
    for &verb in Verb::ALL {
        let source = &scripts.get(verb).source;
        assert!(!source.contains("KEYS[2]"), "{}", verb.name());
        let clocks = source.matches("redis.call('TIME')").count();
        assert!(clocks <= 1 && (clocks == 0 || source.contains("local now_us, now")), "{}", verb.name());
    }
}

#[tokio::test]
async fn a_held_shard_keeps_what_is_due_in_its_bucket_until_it_is_free() {
    let server = RedisServer::start().await;
    let mut shard = bare(&server).await;
    run(&mut shard, &Action::Hold { epoch: 0, on: true }).await;
    assert_eq!(run(&mut shard, &put(vec![Item::new(b"a", NOW - 5)])).await[1], "stored");
    let pump = Action::Pump { epoch: Some(0), limit: 500 };
    assert_eq!(run(&mut shard, &pump).await[0], "held");
    assert_eq!(shard.snapshot().await.buckets.len(), 1);
    run(&mut shard, &Action::Hold { epoch: 0, on: false }).await;
    assert_eq!(run(&mut shard, &pump).await[3], "1");
}

#[tokio::test]
async fn a_claim_leaves_room_for_the_gens_that_a_lost_master_gave_out() {
    let server = RedisServer::start().await;
    let mut shard = bare(&server).await;
    let before = shard.snapshot().await.number("meta", "gen");
    run(&mut shard, &Action::Claim { owner: "one".into(), lock: 0 }).await;
    assert!(shard.snapshot().await.number("meta", "gen") >= before + (1 << 20));
}

#[tokio::test]
async fn a_topic_is_purged_however_many_buckets_others_have() {
    let server = RedisServer::start().await;
    let mut shard = bare(&server).await;
    for n in 0..1100 {
        let items = vec![Item::new(b"x", NOW + 1000)];
        run(&mut shard, &Action::Put { topic: format!("t-{n}"), items }).await;
    }
    let purge = |from| {
        let (topic, last) = ("t-999".into(), Vec::new());
        Action::Purge(Purge { topic, state: "delayed", from, to: NOW * 2, last, limit: 500 })
    };
    assert_eq!(run(&mut shard, &purge(0)).await[..2], ["more", "1"]);
    assert_eq!(run(&mut shard, &purge(0)).await[..2], ["done", "0"]);
}

#[tokio::test]
async fn a_shard_that_has_many_topics_tells_them_by_page_and_its_time_without_them() {
    let server = RedisServer::start().await;
    let mut shard = bare(&server).await;
    for n in 0..2000 {
        run(&mut shard, &Action::configure(&format!("t-{n}"), "paused", "1")).await;
    }
    let alone = shard.call(Verb::Overview, &["0"]).await.unwrap();
    assert_eq!((alone.len(), lossy(&alone[7]), lossy(&alone[8])), (10, "2000".into(), String::new()));
    let (mut topics, mut next) = (BTreeSet::new(), "first".to_owned());
    while !next.is_empty() {
        let page = shard.call(Verb::Overview, &[&next]).await.unwrap();
        assert!(page.len() < 10 + 2 * 600, "some 500 at once, not {}", page.len() / 2);
        topics.extend(page[10..].chunks(2).map(|topic| lossy(&topic[0])));
        next = lossy(&page[8]);
    }
    assert_eq!(topics, (0..2000).map(|n| format!("t-{n}")).collect());
}

#[tokio::test]
async fn a_setting_that_cannot_be_is_refused_by_name_and_not_set() {
    let server = RedisServer::start().await;
    let mut shard = bare(&server).await;
    let cases = [
        ("rate", "0"),
        ("rate", "-1"),
        ("rate", "fast"),
        ("max_attempts", "65536"),
        ("lease_ms", "1.5"),
        ("lease_ms", "-1"),
        ("remember_own_ms", "x"),
        ("repeats", "maybe"),
        ("backoff", "\u{4}aaaa"),
        ("durability", "replica:0"),
        ("durability", "replica:10"),
        ("colour", "1"),
    ];
    for (field, value) in cases {
        let configure = Action::configure("t", field, value);
        let why = shard.call(Verb::Configure, &configure.args()).await.unwrap_err();
        assert!(why.starts_with("DQARG") && why.contains(field), "{field}={value}: {why}");
    }
    assert_eq!(shard.snapshot().await.hashes.get("t:1").map_or(1, std::collections::BTreeMap::len), 1);
}

#[tokio::test]
async fn a_clock_that_reads_more_than_the_pump_believes_moves_nothing() {
    let server = RedisServer::start().await;
    let mut shard = bare(&server).await;
    run(&mut shard, &put(vec![Item::new(b"a", NOW + 1_000)])).await;
    shard.clock_us = Some((NOW + 2_000) * 1000);
    let before = shard.snapshot().await;
    let believed = |ms: u64| ["1".to_owned(), "500".to_owned(), ms.to_string()];
    let answer = shard.call(Verb::Pump, &believed(NOW + 1_999)).await.unwrap();
    assert_eq!(lossy(&answer[0]), "ahead");
    assert_eq!(lossy(&answer[1]), ((NOW + 2_000) * 1000).to_string(), "it says what the clock reads");
    assert_eq!(shard.snapshot().await.buckets, before.buckets);
    let answer = shard.call(Verb::Pump, &believed(NOW + 2_000)).await.unwrap();
    assert_eq!((lossy(&answer[0]), lossy(&answer[3])), ("pumped".to_owned(), "1".to_owned()));
}

#[test]
fn all_but_what_takes_messages_in_or_creates_runs_when_the_memory_is_full() {
    for &verb in Verb::ALL {
        let takes_in = matches!(verb, Verb::Put | Verb::Replay | Verb::Dictionary | Verb::Init);
        let first = verb.file().lines().next().unwrap_or_default();
        let runs = first.contains("allow-oom") || first.contains("no-writes");
        assert_eq!(runs, !takes_in, "{}: {first}", verb.name());
    }
}

#[tokio::test]
async fn what_is_due_already_goes_straight_to_ready_unless_the_shard_is_held() {
    let server = RedisServer::start().await;
    let mut shard = bare(&server).await;
    for (on, put_word, moved_word) in [(false, "ready", "ready"), (true, "stored", "delayed")] {
        let id = |name: &str| format!("{name}-{on}").into_bytes();
        run(&mut shard, &put(vec![Item::new(&id("dead"), NOW)])).await;
        let receipts = reserve(&mut shard, 1, None).await;
        run(&mut shard, &Action::Bury { receipts }).await;
        run(&mut shard, &put(vec![Item::new(&id("later"), NOW + 9)])).await;
        run(&mut shard, &Action::Hold { epoch: 0, on }).await;
        assert_eq!(run(&mut shard, &put(vec![Item::new(&id("new"), NOW - 1)])).await[1], put_word);
        let replay = Action::Replay { topic: "t".into(), delay: 0, ids: vec![id("dead")] };
        assert_eq!(run(&mut shard, &replay).await, [format!("{moved_word} {NOW}")]);
        let changes = vec![(id("later"), NOW.to_string(), None)];
        let words = run(&mut shard, &Action::Reschedule { topic: "t".into(), changes }).await;
        assert_eq!(words, [format!("{moved_word} {} {NOW}", NOW + 9)]);
        let queued = shard.snapshot().await.number("stats", "ready:1");
        assert_eq!(queued, if on { 0 } else { 3 }, "on hold: {on}");
        drop(reserve(&mut shard, 10, None).await);
    }
}
