//! A topic is forgotten only while empty, and leaves nothing behind.

use crate::action::{Action, Item, Reserve};
use crate::bare_shard::{BareShard, NOW, scripts_with};
use crate::snapshot::lossy;
use delayq::protocol::Verb;
use delayq_tests::redis_server::{RedisServer, SharedRedis};
use std::collections::BTreeSet;

const STATES: [&str; 4] = ["delayed", "ready", "leased", "dead"];

async fn shard(server: &SharedRedis) -> BareShard {
    let mut shard = BareShard::create(server, "f", scripts_with(&[])).await;
    shard.clock_us = Some(NOW * 1000);
    shard
}

async fn run(shard: &mut BareShard, action: Action) -> Vec<Vec<u8>> {
    shard.call(action.verb(), &action.args()).await.unwrap()
}

async fn put(shard: &mut BareShard, topic: &str, due: u64) {
    run(shard, Action::Put { topic: topic.into(), items: vec![Item::new(b"own", due)] }).await;
}

async fn lease(shard: &mut BareShard, topic: &str) -> Vec<Vec<u8>> {
    let answer = run(shard, Action::Reserve(Reserve::from(topic, 10, Some(60_000)))).await;
    vec![answer[10].clone()]
}

async fn bring(shard: &mut BareShard, topic: &str, state: &str) {
    put(shard, topic, if state == "delayed" { NOW + 9_000_000 } else { NOW }).await;
    if ["leased", "dead", "delivered"].contains(&state) {
        let receipts = lease(shard, topic).await;
        match state {
            "dead" => drop(run(shard, Action::Bury { receipts }).await),
            "delivered" => drop(run(shard, Action::Ack { receipts }).await),
            _ => {}
        }
    }
    if state == "cancelled" {
        run(shard, Action::Cancel { topic: topic.into(), ids: vec![b"own".to_vec()] }).await;
    }
}

async fn forget(shard: &mut BareShard, topic: &str, what: &str) -> String {
    lossy(&shard.call(Verb::Forget, &[topic, what]).await.unwrap()[0])
}

async fn forget_quiet(shard: &mut BareShard, from: &str, quiet: u64) -> (String, Vec<String>) {
    let answer = shard.call(Verb::ForgetQuiet, &[from, &quiet.to_string()]).await.unwrap();
    let mut words = answer.iter().map(|word| lossy(word));
    (words.next().unwrap(), words.collect())
}

async fn forgotten_at(shard: &mut BareShard, ms: u64, quiet: u64) -> Vec<String> {
    shard.clock_us = Some((NOW + ms) * 1000);
    forget_quiet(shard, "0", quiet).await.1
}

async fn number(shard: &mut BareShard, topic: &str) -> i64 {
    shard.snapshot().await.number("meta", &format!("topic:{topic}"))
}

#[tokio::test]
async fn a_topic_that_holds_anything_is_never_forgotten() {
    let server = RedisServer::start().await;
    let mut shard = shard(&server).await;
    for state in STATES {
        bring(&mut shard, state, state).await;
        let before = shard.snapshot().await.keys.clone();
        for what in ["look", "forget"] {
            let answer = forget(&mut shard, state, what).await;
            assert!(answer.starts_with("kept "), "{state}: {answer}");
        }
        assert_eq!(shard.snapshot().await.keys, before, "{state}");
    }
    // A counter alone also keeps the topic: a script that was cut off may have lost the other half.
    for counter in ["ready", "leased", "accepted", "cancelled"] {
        let topic = format!("counter-{counter}");
        bring(&mut shard, &topic, "delivered").await;
        let field = format!("{counter}:{}", number(&mut shard, &topic).await);
        shard.command(&[b"HINCRBY", b"~stats", field.as_bytes(), b"1"]).await;
        let answer = forget(&mut shard, &topic, "forget").await;
        assert!(answer.starts_with("kept "), "{counter}: {answer}");
    }
}

#[tokio::test]
async fn what_a_forgotten_topic_asked_of_its_writes_is_asked_no_more() {
    let server = RedisServer::start().await;
    let mut shard = shard(&server).await;
    for (topic, asked) in [("a", "replica:3"), ("b", "disk"), ("c", "replica:1")] {
        run(&mut shard, Action::configure(topic, "durability", asked)).await;
    }
    let asked = async |shard: &mut BareShard| {
        let asked = shard.command(&[b"HGET", b"~meta", b"durabilities"]).await;
        redis::from_redis_value::<Option<String>>(asked).unwrap().unwrap_or_default()
    };
    assert_eq!(asked(&mut shard).await, "disk replica:3");
    for (topic, left) in [("a", "disk replica:1"), ("b", "replica:1"), ("c", "")] {
        assert_eq!(forget(&mut shard, topic, "forget").await, "forgotten");
        assert_eq!(asked(&mut shard).await, left);
    }
}

#[tokio::test]
async fn a_bucket_that_is_put_off_keeps_its_topic() {
    let server = RedisServer::start().await;
    let mut shard = shard(&server).await;
    put(&mut shard, "t", NOW + 1000).await;
    shard.command(&[b"HDEL", b"~stats", b"accepted:1"]).await;
    let bucket = format!("b:1:{}", NOW / 3_600_000);
    for at in [NOW - 5000, NOW + 10_000, NOW + 9_000_000] {
        // The pump leaves such an alarm after a failure, even past the hour.
        shard.clock_us = Some(at.max(NOW) * 1000);
        shard.command(&[b"ZADD", b"~alarms", at.to_string().as_bytes(), bucket.as_bytes()]).await;
        assert_eq!(forget(&mut shard, "t", "forget").await, "kept delayed messages", "{at}");
    }
}

#[tokio::test]
async fn a_forgotten_topic_leaves_only_what_time_takes_away() {
    let server = RedisServer::start().await;
    let mut shard = shard(&server).await;
    for topic in ["delivered", "cancelled"] {
        bring(&mut shard, topic, topic).await;
        run(&mut shard, Action::configure(topic, "max_attempts", "3")).await;
        assert_eq!(forget(&mut shard, topic, "look").await, "empty");
        assert_ne!(number(&mut shard, topic).await, 0, "a look changes nothing");
        assert_eq!(forget(&mut shard, topic, "forget").await, "forgotten");
        assert_eq!(forget(&mut shard, topic, "forget").await, "unknown");
    }
    shard.clock_us = Some((NOW + 3_600_001) * 1000);
    run(&mut shard, Action::Pump { epoch: Some(1), limit: 100 }).await;
    let snapshot = shard.snapshot().await;
    assert_eq!((snapshot.leftovers(), snapshot.hashes.get("stats")), (Vec::<String>::new(), None));
    assert!(!snapshot.hashes.keys().any(|key| key.starts_with("t:")), "{:?}", snapshot.hashes);
}

#[tokio::test]
async fn a_forgotten_topics_number_is_never_given_out_again() {
    let server = RedisServer::start().await;
    let mut shard = shard(&server).await;
    for topic in ["a", "b", "c"] {
        bring(&mut shard, topic, "delivered").await;
    }
    for topic in ["a", "c"] {
        assert_eq!(forget(&mut shard, topic, "forget").await, "forgotten");
    }
    put(&mut shard, "d", NOW).await;
    put(&mut shard, "a", NOW + 1000).await;
    let numbers = [number(&mut shard, "d").await, number(&mut shard, "a").await];
    assert_eq!(numbers, [4, 5]);
    // Scripts that iterate by number skip the gaps, and the leftovers of an interrupted forget.
    shard.command(&[b"HSET", b"~t:1", b"name", b"a"]).await;
    let page = run(&mut shard, Action::Overview).await;
    let shown: BTreeSet<_> = page[10..].chunks(2).map(|topic| (lossy(&topic[0]), lossy(&topic[1]))).collect();
    let all = [("b", ""), ("d", "1"), ("a", "")].map(|(name, waits)| (name.to_owned(), waits.to_owned()));
    assert_eq!(shown, all.into());
    assert_eq!(shard.call(Verb::Layout, &[""; 0]).await.unwrap()[3], b"2");
}

#[tokio::test]
async fn a_shard_whose_first_hundred_topics_are_forgotten_still_says_what_it_holds() {
    let server = RedisServer::start().await;
    let mut shard = shard(&server).await;
    for n in 0..100 {
        let topic = format!("t{n}");
        run(&mut shard, Action::configure(&topic, "paused", "1")).await;
        assert_eq!(forget(&mut shard, &topic, "forget").await, "forgotten");
    }
    put(&mut shard, "late", NOW + 1000).await;
    assert_eq!(shard.call(Verb::Layout, &[""; 0]).await.unwrap()[3], b"1");
}

#[tokio::test]
async fn the_books_balance_after_a_topic_was_forgotten_and_used_again() {
    let server = RedisServer::start().await;
    let mut shard = shard(&server).await;
    bring(&mut shard, "t", "cancelled").await;
    assert_eq!(forget(&mut shard, "t", "forget").await, "forgotten");
    let count = run(&mut shard, Action::Count { topic: "t".into() }).await;
    assert_eq!(count.len(), 3, "nothing is told of what is not there");
    bring(&mut shard, "t", "delivered").await;
    let counted = run(&mut shard, Action::Recount { topic: "t".into() }).await;
    let pairs: Vec<String> = counted[4..].iter().map(|number| lossy(number)).collect();
    assert_eq!((lossy(&counted[0]).as_str(), pairs.concat().as_str()), ("counted", "000011"));
}

const HOUR: u64 = 3_600_000;
const DAY: u64 = 24 * HOUR;

#[tokio::test]
async fn a_topic_that_was_empty_for_long_is_forgotten() {
    let server = RedisServer::start().await;
    let mut shard = shard(&server).await;
    bring(&mut shard, "t", "delivered").await;
    assert!(forgotten_at(&mut shard, 0, DAY).await.is_empty(), "it is seen empty for the first time");
    assert!(forgotten_at(&mut shard, DAY, DAY).await.is_empty());
    assert_eq!(forgotten_at(&mut shard, DAY + 1, DAY).await, ["t"]);
    let snapshot = shard.snapshot().await;
    assert_eq!((snapshot.number("meta", "topic:t"), snapshot.number("meta", "topics")), (0, 1));
    assert!(!snapshot.hashes.contains_key("t:1") && !snapshot.hashes.contains_key("stats"));
    put(&mut shard, "t", NOW).await;
    assert_eq!(number(&mut shard, "t").await, 2);
    assert_eq!(lease(&mut shard, "t").await.len(), 1);
}

#[tokio::test]
async fn a_put_begins_the_quiet_time_again_though_its_message_is_gone() {
    let server = RedisServer::start().await;
    let mut shard = shard(&server).await;
    forgotten_at(&mut shard, 0, DAY).await;
    bring(&mut shard, "t", "delivered").await;
    forgotten_at(&mut shard, 0, DAY).await;
    shard.clock_us = Some((NOW + DAY) * 1000);
    run(&mut shard, Action::Put { topic: "t".into(), items: vec![Item::new(b"other", NOW)] }).await;
    let receipts = lease(&mut shard, "t").await;
    run(&mut shard, Action::Ack { receipts }).await;
    assert!(forgotten_at(&mut shard, DAY + 1, DAY).await.is_empty());
    assert!(forgotten_at(&mut shard, 2 * DAY + 1, DAY).await.is_empty());
    assert_eq!(forgotten_at(&mut shard, 2 * DAY + 2, DAY).await, ["t"]);
}

#[tokio::test]
async fn a_topic_that_holds_anything_or_has_a_setting_stays_however_long_it_is_quiet() {
    let server = RedisServer::start().await;
    let mut shard = shard(&server).await;
    for state in STATES {
        bring(&mut shard, state, state).await;
    }
    for (topic, field, value) in
        [("paused", "paused", "1"), ("rate", "rate", "5"), ("policy", "remember_own_ms", "5000")]
    {
        bring(&mut shard, topic, "delivered").await;
        run(&mut shard, Action::configure(topic, field, value)).await;
    }
    for days in 0..5 {
        assert_eq!(forgotten_at(&mut shard, days * DAY, 1).await, [""; 0], "after {days} days");
    }
    run(&mut shard, Action::configure("paused", "paused", "")).await;
    forgotten_at(&mut shard, 5 * DAY, DAY).await;
    assert_eq!(forgotten_at(&mut shard, 7 * DAY, DAY).await, ["paused"]);
}

#[tokio::test]
async fn a_topic_is_kept_for_as_long_as_it_ever_remembered_a_finished_id() {
    let server = RedisServer::start().await;
    let mut shard = shard(&server).await;
    run(&mut shard, Action::configure("t", "remember_own_ms", (7 * DAY).to_string())).await;
    bring(&mut shard, "t", "delivered").await;
    for value in ["1000", ""] {
        run(&mut shard, Action::configure("t", "remember_own_ms", value)).await;
    }
    forgotten_at(&mut shard, 0, 1).await;
    assert!(forgotten_at(&mut shard, 7 * DAY, 1).await.is_empty());
    put(&mut shard, "t", NOW).await;
    let stats = shard.snapshot().await;
    assert_eq!(stats.number("stats", "accepted:1"), 1, "the id is remembered still");
    assert_eq!(forgotten_at(&mut shard, 7 * DAY + 1, 1).await, ["t"]);
}

#[tokio::test]
async fn a_clock_that_is_not_trusted_or_stepped_back_forgets_nothing() {
    let server = RedisServer::start().await;
    let mut shard = shard(&server).await;
    bring(&mut shard, "t", "delivered").await;
    forgotten_at(&mut shard, 0, DAY).await;
    run(&mut shard, Action::Hold { epoch: 0, on: true }).await;
    shard.clock_us = Some((NOW + 9 * DAY) * 1000);
    assert_eq!(forget_quiet(&mut shard, "7", DAY).await, ("7".into(), Vec::new()));
    run(&mut shard, Action::Hold { epoch: 0, on: false }).await;
    shard.command(&[b"HSET", b"~t:1", b"quiet", format!("1 {}", NOW + 99 * DAY).as_bytes()]).await;
    assert!(forgotten_at(&mut shard, 9 * DAY, DAY).await.is_empty());
    assert_eq!(forgotten_at(&mut shard, 10 * DAY + 1, DAY).await, ["t"]);
}

#[tokio::test]
async fn a_thousand_quiet_topics_are_forgotten_in_bounded_pages_and_none_is_passed_over() {
    let server = RedisServer::start().await;
    let mut shard = shard(&server).await;
    for n in 0..1000 {
        let topic = format!("t{n}");
        run(&mut shard, Action::configure(&topic, "lease_ms", "1")).await;
        run(&mut shard, Action::configure(&topic, "lease_ms", "")).await;
    }
    // Each hour of three weeks has an alarm. A script must read them all to learn that a topic has no bucket.
    for hour in 1..500_u64 {
        let item = Item::new(hour.to_string().as_bytes(), NOW + hour * HOUR);
        run(&mut shard, Action::Put { topic: "busy".into(), items: vec![item] }).await;
    }
    let (mut gone, mut calls) = (BTreeSet::new(), 0);
    for ms in [0, 2 * DAY] {
        shard.clock_us = Some((NOW + ms) * 1000);
        let mut from = "0".to_owned();
        loop {
            let (next, names) = forget_quiet(&mut shard, &from, DAY).await;
            assert!(names.len() <= 10, "{} in one call", names.len());
            calls += 1;
            // After a call that could not forget all of the first page, that page comes next.
            if next == "0" && names.is_empty() {
                break;
            }
            gone.extend(names);
            from = next;
        }
    }
    assert_eq!((gone.len(), gone.contains("busy")), (1000, false));
    assert!(calls >= 100, "{calls} calls");
}

#[tokio::test]
async fn a_put_that_races_with_forgetting_is_not_lost() {
    let server = RedisServer::start().await;
    let mut producing = shard(&server).await;
    let mut forgetting = BareShard::uncreated(&server, "f", scripts_with(&[])).await;
    forgotten_at(&mut producing, 0, 1).await;
    producing.clock_us = None;
    let forgetting = tokio::spawn(async move {
        let mut gone = 0;
        for day in 1..=2000 {
            gone += forgotten_at(&mut forgetting, day * DAY, 1).await.len();
        }
        gone
    });
    let (mut delivered, mut n) = (0, 0_u32);
    while !forgetting.is_finished() {
        n += 1;
        let item = Item::new(n.to_string().as_bytes(), NOW);
        run(&mut producing, Action::Put { topic: "t".into(), items: vec![item] }).await;
        let receipts = lease(&mut producing, "t").await;
        let acked = run(&mut producing, Action::Ack { receipts }).await;
        delivered += u32::from(acked == [b"delivered"]);
    }
    let forgotten = forgetting.await.unwrap();
    println!("{forgotten} times forgotten between {n} puts");
    assert_eq!(delivered, n);
    assert!(forgotten > 0, "it was never forgotten");
}
