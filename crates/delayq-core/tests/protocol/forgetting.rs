//! A topic is forgotten only where it holds nothing, and what is forgotten leaves nothing behind.

use crate::{
    action::{Action, Item, Reserve},
    bare_shard::{BareShard, NOW, scripts_with},
    snapshot::lossy,
};
use delayq_core::Verb;
use delayq_tests::redis_server::RedisServer;

const STATES: [&str; 4] = ["delayed", "ready", "leased", "dead"];

async fn shard(server: &RedisServer) -> BareShard {
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

/// Puts a message of the topic, and brings it into a state.
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

/// The number of a topic, 0 where it has none.
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
    // A counter alone keeps it as well: a script that was cut off may have lost the other half.
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
async fn a_bucket_that_is_put_off_keeps_its_topic() {
    let server = RedisServer::start().await;
    let mut shard = shard(&server).await;
    put(&mut shard, "t", NOW + 1000).await;
    shard.command(&[b"HDEL", b"~stats", b"accepted:1"]).await;
    let bucket = format!("b:1:{}", NOW / 3_600_000);
    for at in [NOW - 5000, NOW + 10_000, NOW + 9_000_000] {
        // As the pump leaves an alarm that it could not serve, also behind the hour.
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
    // Those who go by number pass the gaps over, and what a forget that was cut off left in one.
    shard.command(&[b"HSET", b"~t:1", b"name", b"a"]).await;
    let page = run(&mut shard, Action::Overview).await;
    let told: Vec<_> = page[9..].chunks(2).map(|topic| (lossy(&topic[0]), lossy(&topic[1]))).collect();
    let all = [("b", ""), ("d", "1"), ("a", "")].map(|(name, waits)| (name.to_owned(), waits.to_owned()));
    assert_eq!(told, all);
    assert_eq!(shard.call(Verb::Layout, &[""; 0]).await.unwrap()[3], b"2");
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
