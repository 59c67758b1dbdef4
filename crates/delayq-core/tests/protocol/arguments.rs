//! What a caller says wrong is refused by name, and changes nothing.

use crate::{
    action::{Action, GiveBack, Item},
    bare_shard::{BareShard, scripts_with},
    life::deployment,
    snapshot::lossy,
};
use delayq_core::{Message, PutOutcome, Settled, Topic, Verb};
use delayq_tests::redis_server::RedisServer;
use std::time::Duration;

const NOW: u64 = 1_763_697_600_000;

async fn bare(server: &RedisServer) -> BareShard {
    let mut shard = BareShard::create(server, "a", scripts_with(&[])).await;
    shard.clock_us = Some(NOW * 1000);
    shard
}

#[tokio::test]
async fn every_script_refuses_a_wrong_number_of_arguments_by_name_and_writes_nothing() {
    let server = RedisServer::start().await;
    let mut shard = bare(&server).await;
    shard.call(Verb::Overview, &[] as &[&str]).await.unwrap();
    let before = format!("{:?}", shard.snapshot().await);
    for &verb in Verb::ALL {
        let alone = matches!(verb, Verb::Layout | Verb::Overview | Verb::Probe);
        // Too few but for those that take the layout alone, and too many for any.
        for count in [usize::from(alone), 2_003] {
            let Err(why) = shard.call(verb, &vec!["1"; count]).await else {
                panic!("{} takes {count} arguments", verb.name());
            };
            let refusal = format!("DQARG {} takes ", verb.name());
            assert!(why.starts_with(&refusal) && why.contains(&format!(", not {}", count + 1)), "{why}");
        }
    }
    assert_eq!(format!("{:?}", shard.snapshot().await), before);
}

#[tokio::test]
async fn a_delay_or_a_lease_past_all_times_is_refused_and_the_lease_stays() {
    let server = RedisServer::start().await;
    let mut shard = bare(&server).await;
    let put = Action::Put { topic: "t".into(), items: vec![Item::new(b"x", NOW)] };
    shard.call(Verb::Put, &put.args()).await.unwrap();
    for lease in ["9007199254740992", "-1", "1.5", "soon", "inf"] {
        let why = shard.call(Verb::Reserve, &["10", "0", lease, "t"]).await.unwrap_err();
        assert!(why.starts_with("DQARG") && why.contains(&format!("a lease of {lease} ms")), "{why}");
    }
    let receipt = shard.call(Verb::Reserve, &["10", "0", "1000", "t"]).await.unwrap()[10].clone();
    let before = format!("{:?}", shard.snapshot().await.indexes);
    for ms in ["9007199254740992", "99999999999999999999", "-1", "1.5", "soon", "inf"] {
        let release = [receipt.as_slice(), ms.as_bytes(), b"", b"why"];
        let word = lossy(&shard.call(Verb::Release, &release).await.unwrap()[0]);
        assert_eq!(word, format!("failed a delay of {ms} ms is none, or too long"));
        let word = lossy(&shard.call(Verb::Extend, &[receipt.as_slice(), ms.as_bytes()]).await.unwrap()[0]);
        assert_eq!(word, format!("failed a lease of {ms} ms is none, or too long"));
        let why = shard.call(Verb::Replay, &["t", ms, "x"]).await.unwrap_err();
        assert!(why.starts_with("DQARG") && why.contains(&format!("a delay of {ms} ms")), "{why}");
    }
    assert_eq!(format!("{:?}", shard.snapshot().await.indexes), before);
    let all = vec![GiveBack { receipt, delay: Some(1 << 52), keep: false }];
    let word = shard.call(Verb::Release, &Action::Release { all }.args()).await.unwrap();
    assert_eq!(lossy(&word[0]), format!("delayed {}", NOW + (1 << 52)));
}

#[tokio::test]
async fn the_client_hears_that_a_delay_is_too_long() {
    let server = RedisServer::start().await;
    let (client, producer, _) = deployment(&server).await;
    let topic = Topic::new("t").unwrap();
    producer.put(Message::new(topic.clone(), "x")).await.unwrap();
    let request = delayq_core::ReserveRequest { topics: vec![topic], most: 1, most_bytes: 0, lease: None };
    let shard = delayq_core::ShardId::new(0);
    let receipt = client.reserve(shard, &request).await.unwrap().messages.remove(0).receipt;
    let forever = Duration::from_secs(u64::MAX / 1000);
    let settled = client.extend(std::slice::from_ref(&receipt), Some(forever)).await.remove(0).unwrap();
    assert!(matches!(&settled, Settled::Failed(why) if why.ends_with("is none, or too long")), "{settled:?}");
    assert_eq!(client.ack(&[receipt]).await.remove(0).unwrap(), Settled::Delivered);
}

#[tokio::test]
async fn a_topic_gets_no_number_from_a_put_that_a_key_of_the_wrong_type_refuses() {
    for key in ["stats", "t:1"] {
        let server = RedisServer::start().await;
        let mut shard = bare(&server).await;
        shard.command(&[b"SADD", format!("~{key}").as_bytes(), b"x"]).await;
        let put = Action::Put { topic: "t".into(), items: vec![Item::new(b"x", NOW)] };
        let why = shard.call(Verb::Put, &put.args()).await.unwrap_err();
        assert!(why.contains(&format!("DQTYPE {{a:0}}:{key} is a set, not a hash")), "{why}");
        assert_eq!(shard.snapshot().await.number("meta", "topics"), 0, "{key}");
    }
}

#[tokio::test]
async fn a_put_is_told_that_its_id_is_taken_by_a_later_format_or_by_no_message() {
    let server = RedisServer::start().await;
    let (_, producer, _) = deployment(&server).await;
    let message = |id: &str| Message::new(Topic::new("t").unwrap(), "x").id(id).unwrap();
    producer.put(message("first")).await.unwrap();
    for (id, body) in [("newer", format!("\u{2}{}", "x".repeat(40))), ("malformed", "x".into())] {
        let () = server.command(&["SET", &format!("{{dq:0}}:m:1:{id}"), &body]).await;
    }
    assert_eq!(producer.put(message("newer")).await.unwrap().outcome, PutOutcome::Newer);
    assert_eq!(producer.put(message("malformed")).await.unwrap().outcome, PutOutcome::Malformed);
}
