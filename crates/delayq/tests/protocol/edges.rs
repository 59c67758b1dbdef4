//! The limits of valid input, and values beyond them.

use crate::action::{Action, Item, Reserve};
use crate::bare_shard::{BareShard, scripts_with};
use crate::snapshot::lossy;
use delayq::protocol::{OwnId, ShardId, Verb};
use delayq::{
    Admin, Error, Group, Message, MessageError, MessageId, PutError, PutOutcome, State, Target, Topic,
    UnixMillis,
};
use delayq_tests::deployment::Deployment;
use delayq_tests::redis_server::RedisServer;
use std::error::Error as _;

const LAST: u64 = (1 << 53) - 1;

#[tokio::test]
async fn a_message_is_ready_at_its_millisecond_and_not_before_at_every_edge_of_time() {
    let server = RedisServer::start().await;
    let edges = [
        3_600_000,         // the first hour
        1_763_697_600_000, // an hour, a day
        1_798_761_600_000, // a year
        1_772_323_200_000, // the end of a February
        2_147_483_648_000, // 32 bits of seconds
        4_294_967_296_000, // and all of them
        7_258_118_400_000, // the year 2200
    ];
    for (n, edge) in edges.into_iter().enumerate() {
        let mut shard = BareShard::create(&server, &format!("e{n}"), scripts_with(&[])).await;
        shard.clock_us = Some((edge - 1000) * 1000);
        let dues: Vec<u64> = (edge - 2..=edge + 2).collect();
        let items = dues.iter().map(|due| Item::new(due.to_string().as_bytes(), due)).collect();
        let put = Action::Put { topic: "t".into(), items };
        let words = shard.call(Verb::Put, &put.args()).await.unwrap();
        assert!(words[1..].iter().all(|word| word == b"stored"), "{words:?}");
        for due in dues {
            for (us, moved) in [(due * 1000 - 1, "0"), (due * 1000, "1")] {
                shard.clock_us = Some(us);
                let report = shard.call(Verb::Pump, &["0", "500"]).await.unwrap();
                assert_eq!(lossy(&report[3]), moved, "due {due}, pumped at {us} µs");
            }
        }
    }
}

#[tokio::test]
async fn overdue_hours_are_pumped_the_oldest_first() {
    let server = RedisServer::start().await;
    let mut shard = BareShard::create(&server, "o", scripts_with(&[])).await;
    let now = 1_763_697_600_000;
    shard.clock_us = Some((now - 100 * 3_600_000) * 1000);
    let items = (1..=8).rev().map(|hour| Item::new(&[b'0' + hour as u8], now - hour * 3_600_000)).collect();
    shard.call(Verb::Put, &Action::Put { topic: "t".into(), items }.args()).await.unwrap();
    shard.clock_us = Some(now * 1000);
    shard.call(Verb::Pump, &["0", "500"]).await.unwrap();
    let reserve = Action::Reserve(Reserve::from("t", 100, None));
    let answer = shard.call(Verb::Reserve, &reserve.args()).await.unwrap();
    let order: Vec<u8> = answer[9..].chunks(3).map(|one| one[1][2]).collect();
    assert_eq!(order, b"87654321");
}

#[tokio::test]
async fn the_last_due_time_is_kept_to_the_millisecond() {
    let Deployment { server: _server, client: _, producer, admin } = Deployment::new(1).await;
    let topic = Topic::new("t").unwrap();
    let message = Message::new(topic.clone(), "x").at(UnixMillis::new(LAST)).id("last").unwrap();
    let put = producer.put(message).await.unwrap();
    assert_eq!(put.outcome, PutOutcome::Stored(UnixMillis::new(LAST)));
    let found = admin.topic(&topic).get(&Target::from(put.reference)).await.unwrap().unwrap();
    assert_eq!(found.envelope.unwrap().due, UnixMillis::new(LAST));
    for due in [0, LAST + 1, u64::MAX] {
        let message = Message::new(topic.clone(), "x").at(UnixMillis::new(due));
        let refused = producer.put(message).await.unwrap_err();
        assert!(
            refused.error.to_string().contains(&format!("the due time {due} ms is not between 1 and {LAST}")),
            "{refused}"
        );
    }
    assert_eq!(admin.topic(&topic).count().await.unwrap().accepted, 1);
}

#[tokio::test]
async fn a_due_time_that_is_invalid_is_refused_and_nothing_is_stored() {
    let server = RedisServer::start().await;
    let mut shard = BareShard::create(&server, "d", scripts_with(&[])).await;
    shard.clock_us = Some(1_763_697_600_000_000);
    let texts = [
        "0",
        "-1",
        "",
        "nan",
        "inf",
        "0x10",
        "1e3",
        "1.5",
        " 5",
        "+",
        "+-1",
        "+1.5",
        "9007199254740992",
        "tomorrow",
    ];
    for text in texts {
        let put = Action::Put { topic: "t".into(), items: vec![Item::new(b"id", text)] };
        let words = shard.call(Verb::Put, &put.args()).await.unwrap();
        assert_eq!(lossy(&words[1]), "refused due time", "{text:?}");
        let change = [b"t".as_slice(), b"id", text.as_bytes(), b""];
        let words = shard.call(Verb::Reschedule, &change).await.unwrap();
        assert_eq!(lossy(&words[0]), "unknown", "{text:?}");
    }
    assert!(shard.snapshot().await.leftovers().is_empty());
    let put = Action::Put { topic: "t".into(), items: vec![Item::new(b"id", "1763697700000")] };
    shard.call(Verb::Put, &put.args()).await.unwrap();
    for text in texts.into_iter().chain(["by", "by 5", "by +5", "by -9999999999999999"]) {
        let change = [b"t".as_slice(), b"id", text.as_bytes(), b""];
        let words = shard.call(Verb::Reschedule, &change).await.unwrap();
        assert_eq!(lossy(&words[0]), "refused due time", "{text:?}");
    }
}

/// Names that would forge a key, or pass for another name, in a careless join.
const FORGERS: [&str; 16] = [
    "{}",
    "}",
    "{dq:1}",
    ":",
    "1:2",
    "a:b/c",
    "/",
    "meta",
    "1",
    "-1",
    "0x10",
    "💥🚀",
    "ü",
    "~019a9f2c-7b00-7001-8000-000000000001",
    "019a9f2c-7b00-7001-8000-000000000001",
    "0123456789abcdef",
];

#[tokio::test]
async fn no_id_and_no_group_forges_a_key_or_is_taken_for_another() {
    let Deployment { server, client, producer, admin } = Deployment::new(1).await;
    let topics = ["a", "a/b", "a.b-c_d", "1"].map(|name| Topic::new(name).unwrap());
    for topic in &topics {
        for (n, name) in FORGERS.into_iter().enumerate() {
            let message = Message::new(topic.clone(), n.to_string()).id(name).unwrap().group(name).unwrap();
            let put = producer.put(message.at(UnixMillis::new(LAST - n as u64)).any_time()).await.unwrap();
            assert!(matches!(put.outcome, PutOutcome::Stored(_)), "{name}: {put:?}");
        }
    }
    let keys: Vec<String> = server.command(&["KEYS", "*"]).await;
    assert!(keys.iter().all(|key| key.starts_with("{dq:0}:")), "{keys:?}");
    for topic in &topics {
        for (n, name) in FORGERS.into_iter().enumerate() {
            let target = Target::in_group(MessageId::own(name).unwrap(), Group::new(name).unwrap());
            let found = admin.topic(topic).get(&target).await.unwrap().unwrap().envelope.unwrap();
            assert_eq!(
                (found.payload, found.due),
                (n.to_string().into_bytes(), UnixMillis::new(LAST - n as u64))
            );
        }
    }
    for name in FORGERS {
        let (listed, total) = admin.list_group(&Group::new(name).unwrap(), 500).await.unwrap();
        assert_eq!((listed.len(), total), (topics.len(), topics.len() as u64), "{name}");
        assert_eq!(
            producer.cancel_group(&Group::new(name).unwrap()).await.unwrap().changed,
            topics.len() as u64
        );
    }
    assert_eq!(
        Admin::new(client.clone()).shards().overview_of(&[ShardId::new(0)]).await.remove(0).unwrap().topics,
        topics.len() as u64
    );
}

#[test]
fn names_that_are_invalid_are_refused() {
    for name in ["", "\0", "a\r\nb", "\u{7f}", &"x".repeat(129)] {
        assert!(
            OwnId::new(name).is_err() && Group::new(name).is_err() && Topic::new(name).is_err(),
            "{name:?}"
        );
    }
    for topic in ["{a}", "a:b", "a b", "ü", "💥"] {
        assert!(Topic::new(topic).is_err(), "{topic}");
    }
}

#[tokio::test]
async fn a_payload_has_no_byte_up_to_the_limit_and_none_more() {
    let Deployment { server: _server, client: _, producer, admin } = Deployment::new(1).await;
    let topic = Topic::new("t").unwrap();
    let most = delayq::protocol::DEFAULT_PAYLOAD_BYTES;
    for bytes in [0, 1, most] {
        let put = producer
            .put(Message::new(topic.clone(), vec![7; bytes]).at(UnixMillis::new(LAST)))
            .await
            .unwrap();
        let found = admin.topic(&topic).get(&Target::from(put.reference)).await.unwrap().unwrap();
        assert_eq!(found.envelope.unwrap().payload.len(), bytes);
    }
    let refused = producer.put(Message::new(topic.clone(), vec![7; most + 1])).await.unwrap_err();
    let PutError { error, .. } = &refused;
    assert!(matches!(error, Error::Message(MessageError::PayloadTooLarge(..))), "{refused}");
    assert_eq!(
        refused.to_string(),
        format!("the message was not put: {error}; repeating fails until this is fixed")
    );
    assert_eq!(refused.source().map(ToString::to_string), Some(error.to_string()));
    assert_eq!(admin.topic(&topic).count().await.unwrap().accepted, 3);
}

#[tokio::test]
async fn another_content_under_the_same_id_is_a_conflict_and_a_repeat_is_not() {
    let Deployment { server: _server, client: _, producer, admin } = Deployment::new(1).await;
    let topic = Topic::new("t").unwrap();
    let due = UnixMillis::new(LAST - 5);
    let message = |body: &str| Message::new(topic.clone(), body).id("order-1").unwrap().at(due).any_time();
    assert_eq!(producer.put(message("one")).await.unwrap().outcome, PutOutcome::Stored(due));
    for _ in 0..3 {
        // A repeat may carry another due time; the first due time applies.
        let again = message("one").at(UnixMillis::new(LAST));
        assert_eq!(producer.put(again).await.unwrap().outcome, PutOutcome::Exists(State::Delayed, due));
    }
    let others = [message("two"), message("one").header("a", "b"), message("one").header("a", "")];
    for other in others {
        assert_eq!(producer.put(other).await.unwrap().outcome, PutOutcome::Conflict(State::Delayed, due));
    }
    let numbers = admin.topic(&topic).count().await.unwrap();
    assert_eq!((numbers.accepted, numbers.delayed), (1, 1));
}
