//! Names outside the rules, and keys of another type, from other programs: no reader stops there.

use crate::bare_shard::{BareShard, NOW, scripts_with};
use crate::snapshot::lossy;
use delayq::admin::{ListState, PurgeWhat, TimeRange, TopicDeletion};
use delayq::protocol::{Holder, Owner, ShardId, Verb};
use delayq::{CancelOutcome, Group, Message, MessageId, Target, Topic};
use delayq_tests::deployment::Deployment;
use delayq_tests::redis_server::RedisServer;
use std::collections::BTreeSet;
use std::time::Duration;

const ODD: [&[u8]; 9] = [
    b"",
    b"a\nb",
    b"\0",
    b"\x7f",
    &[b'a'; 129],
    b"\xff",
    // U+0085, an overlong /, a surrogate.
    b"\xc2\x85",
    b"\xc0\xaf",
    b"\xed\xa0\x80",
];

const FINE: [&[u8]; 6] =
    [b"a", b" ", &[b'a'; 128], "ü€💥\u{a0}".as_bytes(), "\u{10ffff}".as_bytes(), b"{a:b}/%~"];

fn envelope(group: Option<&[u8]>) -> Vec<u8> {
    let mut bytes = vec![0; 32];
    bytes[0] = 1;
    if let Some(group) = group {
        bytes[3] = 8;
        bytes.push(group.len() as u8);
        bytes.extend(group);
    }
    bytes
}

#[tokio::test]
async fn no_script_takes_a_name_outside_the_rules() {
    let server = RedisServer::start().await;
    let mut shard = BareShard::create(&server, "n", scripts_with(&[])).await;
    shard.clock_us = Some(NOW * 1000);
    let due = (NOW + 1000).to_string();
    let put = |topic: &[u8], id: &[u8], envelope: Vec<u8>| {
        [topic.to_vec(), id.to_vec(), due.clone().into_bytes(), Vec::new(), envelope]
    };
    for topic in [&b"my orders"[..], b"", &[b'a'; 129], "ü".as_bytes(), b"a\nb", b"a:b", b"\xff"] {
        let refused = [
            shard.call(Verb::Put, &put(topic, b"a", envelope(None))).await,
            shard.call(Verb::Configure, &[topic, b"paused", b"1"]).await,
        ];
        for answer in refused {
            assert!(answer.unwrap_err().starts_with("DQARG a topic is "), "{}", lossy(topic));
        }
    }
    assert_eq!(shard.snapshot().await.number("meta", "topics"), 0);
    for odd in ODD {
        let word = shard.call(Verb::Put, &put(b"t", odd, envelope(None))).await.unwrap();
        assert!(lossy(&word[1]).starts_with("refused id"), "{}: {}", lossy(odd), lossy(&word[1]));
        let word = shard.call(Verb::Put, &put(b"t", b"a", envelope(Some(odd)))).await.unwrap();
        assert!(lossy(&word[1]).starts_with("refused group"), "{}: {}", lossy(odd), lossy(&word[1]));
        for (verb, args) in [
            (Verb::Claim, [odd, b"0", b""].as_slice()),
            (Verb::ShiftGroup, &[odd, b"", b"token", b"1", b"10"]),
        ] {
            let is_owner = verb == Verb::Claim && odd.len() == 129;
            let answer = shard.call(verb, args).await;
            assert_eq!(answer.is_err(), !is_owner, "{} {}: {answer:?}", verb.name(), lossy(odd));
        }
    }
    assert!(shard.snapshot().await.bodies.is_empty());
    for fine in FINE {
        let id = [fine, b"\x1f", fine].concat();
        let word = shard.call(Verb::Put, &put(b"t", &id, envelope(Some(fine)))).await.unwrap();
        assert_eq!(lossy(&word[1]), "stored", "{}", lossy(fine));
    }
    for counts in ["", "0", "1,", "1,1", "2,1", "1,x,3", "1e1", "01", "4097"] {
        let why = shard.call(Verb::Init, &["0", counts]).await.unwrap_err();
        assert!(why.starts_with("DQARG "), "{counts}: {why}");
    }
    for place in ["", "a", "@", "@a b", ">", &format!("@{}", "a".repeat(33))] {
        let why = shard.call(Verb::Move, &["", place]).await.unwrap_err();
        assert!(why.starts_with("DQARG "), "{place}: {why}");
    }
}

fn topic(name: &str) -> Topic {
    Topic::new(name).unwrap()
}

async fn planted() -> Deployment {
    let deployment = Deployment::new(1).await;
    let Deployment { server, producer, client, .. } = &deployment;
    let order = |id: &str| Message::new(topic("orders"), "x").id(id).unwrap().group("g").unwrap();
    for id in ["later-1", "later-2", "odd-id"] {
        producer.put(order(id).after(Duration::from_secs(3600))).await.unwrap();
    }
    for id in ["leased", "dead", "ready-1", "ready-2"] {
        producer.put(order(id)).await.unwrap();
    }
    let request = delayq::protocol::ReserveRequest {
        topics: vec![topic("orders")],
        most: 2,
        max_bytes: 0,
        lease: Some(Duration::from_secs(600)),
    };
    let holder = Holder::new(client.clone());
    let mut taken = holder.reserve(&[(ShardId::new(0), request)]).await.remove(0).unwrap().messages;
    let dead = taken.pop().unwrap().receipt;
    holder.bury(&[(dead, "why".into())]).await.remove(0).unwrap();
    producer.put(Message::new(topic("broken"), "x").after(Duration::from_secs(3600))).await.unwrap();
    producer.put(Message::new(topic("spaced"), "x").id("a").unwrap()).await.unwrap();
    let script = r"
        local base = '{dq:0}:'
        -- The topic `spaced` becomes `my orders`.
        local no = redis.call('HGET', base .. 'meta', 'topic:spaced')
        redis.call('HDEL', base .. 'meta', 'topic:spaced')
        redis.call('HSET', base .. 'meta', 'topic:my orders', no)
        redis.call('HSET', base .. 't:' .. no, 'name', 'my orders')
        -- The id `odd-id` has a line feed.
        local body = redis.call('GET', base .. 'm:1:odd-id\31g')
        redis.call('DEL', base .. 'm:1:odd-id\31g')
        redis.call('SET', base .. 'm:1:od\nd', body)
        for _, bucket in ipairs(redis.call('KEYS', base .. 'b:1:*')) do
          for _, member in ipairs(redis.call('ZRANGE', bucket, 0, -1)) do
            if string.sub(member, 1, -5) == 'odd-id\31g' then
              local due = redis.call('ZSCORE', bucket, member)
              redis.call('ZREM', bucket, member)
              redis.call('ZADD', bucket, due, 'od\nd' .. string.sub(member, -4))
              redis.call('ZREM', base .. 'g:g', '1:odd-id\31g')
              redis.call('ZADD', base .. 'g:g', due, '1:od\nd')
              -- And one of another type stands in front of all.
              redis.call('ZADD', bucket, 1, 'set\0\0\0\2')
            end
          end
        end
        redis.call('SADD', base .. 'm:1:set', 'x')
        -- The policy of `broken` is a set, and so is the index of its dead letters.
        no = redis.call('HGET', base .. 'meta', 'topic:broken')
        redis.call('DEL', base .. 't:' .. no)
        redis.call('SADD', base .. 't:' .. no, 'x')
        redis.call('SADD', base .. 'd:' .. no, 'x')
        return 0";
    let _: i64 = server.command(&["EVAL", script, "1", "{dq:0}:meta"]).await;
    deployment
}

fn ids(listed: &[delayq::admin::Listed]) -> BTreeSet<String> {
    listed.iter().map(|listed| listed.id.to_string()).collect()
}

#[tokio::test]
async fn an_odd_topic_or_id_or_a_key_of_another_type_hides_no_other() {
    let Deployment { server: _server, client, producer, admin } = planted().await;
    let shard = ShardId::new(0);
    let all: Vec<String> = admin.topics().await.unwrap().iter().map(Topic::to_string).collect();
    assert_eq!(all, ["broken", "orders", "~odd-my%20orders"]);
    let pages = Holder::new(client.clone()).topics(&[(shard, None)]).await.remove(0).unwrap();
    assert_eq!(pages.topics.len(), 3);
    let mut unreadable = Vec::new();
    for topic in admin.topics().await.unwrap() {
        unreadable.push(admin.topic(&topic).count().await.unwrap().unreadable);
        admin.topic(&topic).policy().await.unwrap();
    }
    assert_eq!(unreadable, [2, 0, 0]);
    let orders = topic("orders");
    for (state, wanted) in [
        (ListState::Delayed, &["later-1", "later-2", "~odd-od%0Ad"][..]),
        (ListState::Ready, &["ready-1", "ready-2"]),
        (ListState::Leased, &["leased"]),
        (ListState::Dead { newest_first: true }, &["dead"]),
    ] {
        let listed = admin.topic(&orders).list(state, TimeRange::ALL, 100).await.unwrap();
        let readable: BTreeSet<String> = ids(&listed).into_iter().filter(|id| id != "set").collect();
        assert_eq!(readable, wanted.iter().map(ToString::to_string).collect(), "{state:?}");
    }
    let (group, _) = admin.list_group(&Group::new("g").unwrap(), 100).await.unwrap();
    assert!(ids(&group).contains("~odd-od%0Ad") && ids(&group).contains("later-1"), "{group:?}");
    let (mut walk, mut walked, mut odd) = (admin.walk(None).await.unwrap(), BTreeSet::new(), BTreeSet::new());
    while let Some(step) = walk.step().await.unwrap() {
        for listed in step {
            let is_odd = listed.id.is_odd() || listed.topic.is_odd() || listed.envelope.is_err();
            if is_odd { &mut odd } else { &mut walked }.insert(format!("{} {}", listed.topic, listed.id));
        }
    }
    let named = odd.iter().filter(|name| !name.starts_with("~odd-%23")).map(String::as_str);
    assert_eq!(named.collect::<Vec<_>>(), ["orders set", "orders ~odd-od%0Ad", "~odd-my%20orders a"]);
    assert_eq!(odd.len(), 4, "and the message of the topic whose name cannot be read: {odd:?}");
    assert_eq!(walked.len(), 6, "{walked:?}");
    let audit = admin.audit().run(|_| {}).await.unwrap();
    assert!(audit.findings.iter().any(|found| found.kind.word() == "wrong_type"), "{audit:?}");
    Owner::new(client.clone()).survey(shard, 0, &[Duration::from_secs(60)]).await.unwrap();
    let books = Owner::new(client).books(shard, Default::default()).await.unwrap();
    assert_eq!(books.topics.len(), 3);
    assert_eq!(admin.shards().overview().await.unwrap()[0].1.leases, 1);

    let odd: MessageId = "~odd-od%0Ad".parse().unwrap();
    assert_eq!(producer.cancel(&orders, &Target::from(odd)).await.unwrap(), CancelOutcome::Cancelled);
    let spaced: Topic = "~odd-my%20orders".parse().unwrap();
    assert_eq!(admin.topic(&spaced).purge(PurgeWhat::Ready, |_| {}).await.unwrap().purged, 1);
    assert_eq!(admin.topic(&spaced).delete().await.unwrap(), TopicDeletion::Deleted);
    assert_eq!(admin.topics().await.unwrap().len(), 2);
}
