//! What the design promises, sentence by sentence, where the model does not say it already.

use crate::{
    action::{Action, Item, Purge, Reserve},
    bare_shard::{BareShard, scripts_with},
    life::deployment,
    snapshot::lossy,
};
use delayq_core::{
    Error, Fate, Message, PutOutcome, ReserveRequest, Scripts, Settled, ShardId, State, Target, Topic,
    UnixMillis, Verb,
};
use delayq_tests::redis_server::{RedisOptions, RedisServer};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

const NOW: u64 = 1_763_697_600_000;
const SHARD: ShardId = ShardId::new(0);
const NONE: [&[u8]; 0] = [];

async fn bare(server: &RedisServer) -> BareShard {
    let mut shard = BareShard::create(server, "c", scripts_with(&[])).await;
    shard.clock_us = Some(NOW * 1000);
    shard
}

async fn run(shard: &mut BareShard, action: &Action) -> Vec<String> {
    let answer = shard.call(action.verb(), &action.args()).await;
    answer.unwrap().iter().map(|item| lossy(item)).collect()
}

fn put(items: Vec<Item>) -> Action {
    Action::Put { topic: "t".into(), items }
}

async fn reserve(shard: &mut BareShard, most: u64, lease: Option<u64>) -> Vec<Vec<u8>> {
    let action = Action::Reserve(Reserve::from("t", most, lease));
    let answer = shard.call(Verb::Reserve, &action.args()).await.unwrap();
    answer.get(9..).unwrap_or_default().chunks(3).map(|one| one[1].clone()).collect()
}

fn request(topic: &Topic) -> ReserveRequest {
    ReserveRequest { topics: vec![topic.clone()], most: 500, most_bytes: 0, lease: None }
}

#[tokio::test]
async fn every_script_refuses_a_shard_that_was_never_created_and_writes_nothing() {
    let server = RedisServer::start().await;
    let mut shard = BareShard::uncreated(&server, "u", Arc::new(Scripts::published())).await;
    for &verb in Verb::ALL {
        if matches!(verb, Verb::Grow | Verb::Init | Verb::Layout | Verb::Probe) {
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
        if matches!(verb, Verb::Grow | Verb::Init | Verb::Layout | Verb::Probe) {
            continue;
        }
        let why = shard.call(verb, &NONE).await.unwrap_err();
        assert!(why.starts_with("DQLAYOUT 2 1 is the layout of"), "{}: {why}", verb.name());
    }
    assert_eq!(format!("{:?}", shard.snapshot().await), before);
}

#[test]
fn no_script_touches_its_second_key_or_takes_the_time_from_its_caller() {
    let scripts = delayq_core::Scripts::published();
    for &verb in Verb::ALL {
        let source = &scripts.get(verb).source;
        assert!(!source.contains("KEYS[2]"), "{}", verb.name());
        let clocks = source.matches("redis.call('TIME')").count();
        assert!(clocks <= 1 && (clocks == 0 || source.contains("local now_us, now")), "{}", verb.name());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_oom_a_put_is_refused_whole_and_all_that_drains_goes_on() {
    let server = RedisServer::start_with(RedisOptions::default().set("maxmemory-policy", "noeviction")).await;
    let (client, producer, admin) = deployment(&server).await;
    let topic = Topic::new("t").unwrap();
    let message = |n: u32| Message::new(topic.clone(), vec![1; 100]).id(format!("id-{n}")).unwrap();
    let far = Duration::from_secs(3600);
    for n in 0..40 {
        producer.put(message(n).after(if n < 10 { far } else { Duration::from_millis(1) })).await.unwrap();
    }
    let () = server.command(&["CONFIG", "SET", "maxmemory", "1mb"]).await;
    let before = admin.count(&topic).await.unwrap();
    let refused = producer.put(message(99)).await.unwrap_err().error;
    assert!(matches!(&refused, Error::Redis { code, .. } if code == "OOM"), "{refused}");
    assert_eq!(refused.fate(), Fate::NotApplied);
    assert_eq!(admin.count(&topic).await.unwrap().accepted, before.accepted);
    for n in 0..10 {
        let target = Target::from(delayq_core::MessageId::own(format!("id-{n}")).unwrap());
        let soon = delayq_core::Reschedule::To(delayq_core::Due::After(Duration::from_millis(1)));
        match n % 2 {
            0 => drop(producer.cancel(&topic, &target).await.unwrap()),
            _ => drop(producer.reschedule(&topic, &target, soon).await.unwrap()),
        }
    }
    let mut delivered = 0;
    while delivered < 35 {
        client.pump(SHARD, Some(1), 500).await.unwrap();
        for message in client.reserve(SHARD, &request(&topic)).await.unwrap().messages {
            assert_eq!(client.ack(&[message.receipt]).await[0].clone().unwrap(), Settled::Delivered);
            delivered += 1;
        }
    }
    let numbers = admin.count(&topic).await.unwrap();
    assert!(numbers.balances() && numbers.pending() == 0, "{numbers:?}");
    let () = server.command(&["CONFIG", "SET", "maxmemory", "0"]).await;
    assert!(producer.put(message(99)).await.unwrap().outcome.is_accepted());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_flushed_under_load_lose_and_repeat_nothing() {
    const COUNT: u32 = 600;
    let server = RedisServer::start().await;
    let (client, producer, admin) = deployment(&server).await;
    let topic = Topic::new("t").unwrap();
    let over = AtomicBool::new(false);
    let flush = async {
        while !over.load(Ordering::Relaxed) {
            let () = server.command(&["SCRIPT", "FLUSH"]).await;
        }
    };
    let load = async {
        let (mut put, mut delivered) = (0, std::collections::HashSet::new());
        while (delivered.len() as u32) < COUNT {
            if put < COUNT {
                let message = Message::new(topic.clone(), put.to_string());
                assert!(producer.put(message).await.unwrap().outcome.is_accepted());
                put += 1;
            }
            for message in client.reserve(SHARD, &request(&topic)).await.unwrap().messages {
                assert_eq!(client.ack(&[message.receipt]).await[0].clone().unwrap(), Settled::Delivered);
                assert!(delivered.insert(message.envelope.payload));
            }
        }
        over.store(true, Ordering::Relaxed);
    };
    tokio::join!(flush, load);
    let numbers = admin.count(&topic).await.unwrap();
    assert_eq!((numbers.accepted, numbers.delivered), (u64::from(COUNT), u64::from(COUNT)));
}

#[tokio::test]
async fn a_late_repeat_of_a_put_is_told_how_the_first_one_ended_and_when_it_may_be_forgotten_it_is_stale() {
    let server = RedisServer::start().await;
    let (client, producer, _) = deployment(&server).await;
    let topic = Topic::new("t").unwrap();
    let message = || Message::new(topic.clone(), "x").id("order-17").unwrap();
    producer.put(message()).await.unwrap();
    let receipt = client.reserve(SHARD, &request(&topic)).await.unwrap().messages.remove(0).receipt;
    client.ack(&[receipt]).await.remove(0).unwrap();
    let again = producer.put(message()).await.unwrap().outcome;
    assert!(matches!(again, PutOutcome::Exists(State::Delivered, _)), "{again:?}");
    let other = Message::new(topic.clone(), "x").id("order-18").unwrap().first_tried(UnixMillis::new(NOW));
    assert_eq!(producer.put(other).await.unwrap().outcome, PutOutcome::Stale);
}

#[tokio::test]
async fn a_put_is_stale_where_a_cancel_of_it_may_be_forgotten_already() {
    let server = RedisServer::start().await;
    let mut shard = bare(&server).await;
    run(&mut shard, &Action::configure("t", "remember_cancelled_ms", "1000")).await;
    let mut item = Item::new(b"order-17", NOW + 100_000);
    run(&mut shard, &put(vec![item.clone()])).await;
    run(&mut shard, &Action::Cancel { topic: "t".into(), ids: vec![b"order-17".to_vec()] }).await;
    shard.clock_us = Some((NOW + 2000) * 1000);
    run(&mut shard, &Action::Pump { epoch: Some(0), limit: 500 }).await;
    item.tried = Some(NOW);
    assert_eq!(run(&mut shard, &put(vec![item])).await[1], "stale");
}

#[tokio::test]
async fn a_lease_ends_when_the_pump_takes_it_back_and_not_by_the_clock() {
    let server = RedisServer::start().await;
    let mut shard = bare(&server).await;
    run(&mut shard, &put(vec![Item::new(b"a", NOW), Item::new(b"b", NOW)])).await;
    let receipts = reserve(&mut shard, 2, Some(100)).await;
    shard.clock_us = Some((NOW + 10_000) * 1000);
    assert_eq!(run(&mut shard, &Action::Ack { receipts: vec![receipts[0].clone()] }).await, ["delivered"]);
    run(&mut shard, &Action::Pump { epoch: Some(0), limit: 500 }).await;
    assert_eq!(run(&mut shard, &Action::Ack { receipts: vec![receipts[1].clone()] }).await, ["expired"]);
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
async fn pause_and_rate_act_at_reserve_alone() {
    let server = RedisServer::start().await;
    let mut shard = bare(&server).await;
    let configure = |field, value: &str| Action::configure("t", field, value);
    run(&mut shard, &configure("paused", "1")).await;
    let items: Vec<Item> = (0..100_u8).map(|n| Item::new(&[b'a', n + 32], NOW + 10)).collect();
    run(&mut shard, &put(items)).await;
    shard.clock_us = Some((NOW + 10) * 1000);
    assert_eq!(run(&mut shard, &Action::Pump { epoch: Some(0), limit: 500 }).await[3], "100");
    assert!(reserve(&mut shard, 100, None).await.is_empty());
    run(&mut shard, &configure("paused", "")).await;
    run(&mut shard, &configure("rate", "10")).await;
    let mut taken = 0;
    for ms in 0..=3000 {
        shard.clock_us = Some((NOW + 10 + ms) * 1000);
        if ms % 50 == 0 {
            taken += reserve(&mut shard, 100, None).await.len();
        }
    }
    assert!((30..=31).contains(&taken), "{taken} in 3 s at 10 a second");
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
async fn a_broken_topic_takes_no_message_of_another_with_it() {
    let server = RedisServer::start().await;
    let mut shard = bare(&server).await;
    for topic in ["good", "bad"] {
        let items = vec![Item::new(b"x", NOW)];
        run(&mut shard, &Action::Put { topic: topic.into(), items }).await;
    }
    shard.command(&[b"DEL", b"~r:2"]).await;
    shard.command(&[b"SADD", b"~r:2", b"x"]).await;
    let topics = vec!["good".into(), "bad".into()];
    let both = Action::Reserve(Reserve { topics, most: 10, most_bytes: 0, lease: None });
    let answer = shard.call(Verb::Reserve, &both.args()).await.unwrap();
    assert_eq!(answer[9 + 1], [b"1:x", &shard.snapshot().await.bodies[&(1, b"x".to_vec())][4..8]].concat());
    let why = shard.call(Verb::Reserve, &both.args()).await;
    assert!(why.is_ok_and(|answer| answer[8] == b"0"));
    let alone = Action::Reserve(Reserve::from("bad", 10, None));
    let why = shard.call(Verb::Reserve, &alone.args()).await.unwrap_err();
    assert!(why.contains("DQTYPE {c:0}:r:2 is a set, not a list"), "{why}");
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
        Action::Purge(Purge { topic: "t-999".into(), state: "delayed", from, to: NOW * 2, limit: 500 })
    };
    assert_eq!(run(&mut shard, &purge(0)).await[..2], ["more", "1"]);
    assert_eq!(run(&mut shard, &purge(0)).await[..2], ["done", "0"]);
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
        ("backoff", "\u{4}aaaa"),
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
async fn a_message_that_cannot_be_decoded_is_buried_and_keeps_no_other_back() {
    let server = RedisServer::start().await;
    let (client, producer, admin) = deployment(&server).await;
    let topic = Topic::new("t").unwrap();
    for id in ["good-1", "bad", "good-2"] {
        producer.put(Message::new(topic.clone(), "x").id(id).unwrap().header("name", "v")).await.unwrap();
    }
    // A header's value that is no UTF-8, as another language's client might have written it.
    let mut body: Vec<u8> = server.command(&["GET", "{dq:0}:m:1:bad"]).await;
    let at = body.len() - 2;
    body[at] = 0xff;
    let mut connection = server.connect().await;
    let () = redis::cmd("SET").arg("{dq:0}:m:1:bad").arg(body).query_async(&mut connection).await.unwrap();
    let report = client.reserve(SHARD, &request(&topic)).await.unwrap();
    assert_eq!((report.messages.len(), report.buried), (2, 1), "{report:?}");
    let numbers = admin.count(&topic).await.unwrap();
    assert_eq!((numbers.leased, numbers.dead, numbers.balances()), (2, 1, true), "{numbers:?}");
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
