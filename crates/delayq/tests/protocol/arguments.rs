//! Invalid arguments are refused by name, and change nothing.

use crate::action::{Action, GiveBack, Item};
use crate::bare_shard::{BareShard, scripts_with};
use crate::snapshot::lossy;
use delayq::protocol::{Holder, Verb};
use delayq::{Message, PutOutcome, Settled, Topic};
use delayq_tests::deployment::Deployment;
use delayq_tests::redis_server::{RedisServer, SharedRedis};
use std::time::Duration;

const NOW: u64 = 1_763_697_600_000;

async fn bare(server: &SharedRedis) -> BareShard {
    let mut shard = BareShard::create(server, "a", scripts_with(&[])).await;
    shard.clock_us = Some(NOW * 1000);
    shard
}

#[tokio::test]
async fn every_script_refuses_a_wrong_number_of_arguments_by_name_and_writes_nothing() {
    let server = RedisServer::start().await;
    let mut shard = bare(&server).await;
    shard.call(Verb::Overview, &["0"]).await.unwrap();
    let before = format!("{:?}", shard.snapshot().await);
    for &verb in Verb::ALL {
        // Too few for all but the script that takes only the layout, and too many for any.
        for count in [usize::from(verb == Verb::Layout), 2_003] {
            let Err(why) = shard.call(verb, &vec!["1"; count]).await else {
                panic!("{} takes {count} arguments", verb.name());
            };
            let refusal = format!("DQARG {} takes ", verb.name());
            assert!(why.starts_with(&refusal) && why.contains(&format!(", not {}", count + 1)), "{why}");
        }
    }
    assert_eq!(format!("{:?}", shard.snapshot().await), before);
}

/// A call of each script that takes single numbers or words. Numbers with a range have a position, a minimum
/// and a maximum; words have a position alone.
type Call = (Verb, &'static [&'static str], &'static [(usize, i64, i64)]);

const LAST: i64 = (1 << 53) - 1;
const WORD: i64 = i64::MIN;
const CALLS: [Call; 20] = [
    (Verb::Reserve, &["10", "0", "1000", "t"], &[(0, 1, 500), (1, 0, 4_294_967_295), (2, 1, 86_400_000)]),
    (Verb::Pump, &["0", "500", "1", "1"], &[(0, 0, LAST), (1, 1, 500), (2, 0, LAST), (3, 0, LAST - 1)]),
    (Verb::CancelGroup, &["g", "", "0", "", "500"], &[(2, 0, LAST), (4, 1, 500)]),
    (Verb::ShiftGroup, &["g", "", "token", "1", "500"], &[(3, -LAST, LAST), (4, 1, 500)]),
    (Verb::Claim, &["one", "0", ""], &[(1, 0, 3_600_000)]),
    (Verb::Hold, &["0", "off"], &[(0, 0, LAST), (1, WORD, WORD)]),
    (Verb::Count, &["t", "0"], &[(1, 0, LAST)]),
    (Verb::Dictionary, &["1", ""], &[(0, 0, 4_294_967_295)]),
    (Verb::Histogram, &["t", "0", "9", "60000"], &[(1, 0, LAST), (2, 0, LAST + 1), (3, 60_000, 3_600_000)]),
    (
        Verb::List,
        &["t", "dead", "0", "9", "asc", "", "10"],
        &[(1, WORD, WORD), (2, 0, LAST), (3, 0, LAST), (4, WORD, WORD), (6, 1, 500)],
    ),
    (Verb::ListGroup, &["g", "0", "", "10"], &[(1, 0, LAST), (3, 1, 500)]),
    (Verb::Promote, &["t", "", "0", "1763697600000", "", "10"], &[(2, 0, LAST), (3, 0, LAST), (5, 1, 500)]),
    (
        Verb::Purge,
        &["t", "dead", "0", "9", "", "10"],
        &[(1, WORD, WORD), (2, 0, LAST), (3, 0, LAST), (5, 1, 500)],
    ),
    (Verb::Replay, &["t", "0", "x"], &[(1, 0, LAST - NOW as i64)]),
    (Verb::Finish, &["t", "any", "x"], &[(1, WORD, WORD)]),
    (Verb::Meter, &["calls", "1", "1000"], &[(1, WORD, WORD), (2, 1, 9_007_199_254_740)]),
    (Verb::Operate, &["t", "", "replay 0", "x", "2", "9"], &[(1, WORD, WORD), (2, WORD, WORD)]),
    (Verb::Swap, &["note", "0", "text"], &[(1, 0, LAST - 1)]),
    (Verb::Init, &["0", "1"], &[(0, 0, 4095), (1, 1, 4096)]),
    (Verb::Survey, &["0", "60000"], &[(1, 1, 1 << 52)]),
];

#[tokio::test]
async fn a_number_outside_its_range_is_refused_by_name_before_anything_is_written() {
    let server = RedisServer::start().await;
    let mut shard = bare(&server).await;
    let items = (0..4_u8).map(|n| Item::new(&[b'a' + n], NOW + u64::from(n) * 10)).collect();
    shard.call(Verb::Put, &Action::Put { topic: "t".into(), items }.args()).await.unwrap();
    let before = format!("{:?}", shard.snapshot().await);
    for (verb, args, checked) in CALLS {
        for &(place, least, most) in checked {
            let mut wrong = ["1.5", "0x1", "1e1", "x", "nan", " 1", "--1"].map(str::to_owned).to_vec();
            if least > i64::MIN {
                // Beyond 2^53 a double represents every second number.
                let more = most + 1 + i64::from(most > LAST);
                wrong.extend([(least - 1).to_string(), more.to_string(), "9".repeat(400)]);
            }
            for text in wrong {
                let mut args: Vec<String> = args.iter().map(ToString::to_string).collect();
                args[place].clone_from(&text);
                let answer = shard.call(verb, &args).await;
                let why = answer.expect_err(&format!("{} takes {args:?}", verb.name()));
                assert!(why.starts_with("DQARG "), "{} {args:?}: {why}", verb.name());
                assert!(why.contains(&text), "{} {args:?}: {why}", verb.name());
            }
        }
    }
    let after = format!("{:?}", shard.snapshot().await);
    assert_eq!(after, before);
}

#[tokio::test]
async fn five_thousand_asked_for_at_once_leave_none_leased_without_a_lease() {
    let server = RedisServer::start().await;
    let mut shard = bare(&server).await;
    let items: Vec<Item> = (0..500_u16).map(|n| Item::new(n.to_string().as_bytes(), NOW)).collect();
    shard.call(Verb::Put, &Action::Put { topic: "t".into(), items }.args()).await.unwrap();
    for (verb, args) in [(Verb::Reserve, ["5000", "0", "", "t"].as_slice()), (Verb::Pump, &["0", "9000"])] {
        let why = shard.call(verb, args).await.unwrap_err();
        assert!(why.starts_with("DQARG") && why.contains("from 1 to 500"), "{why}");
    }
    let numbers = shard.call(Verb::Count, &["t", "0"]).await.unwrap();
    assert_eq!((lossy(&numbers[3]), lossy(&numbers[4])), ("500".into(), "0".into()), "ready and leased");
}

#[tokio::test]
async fn a_delay_or_a_lease_past_all_times_is_refused_and_the_lease_stays() {
    let server = RedisServer::start().await;
    let mut shard = bare(&server).await;
    let put = Action::Put { topic: "t".into(), items: vec![Item::new(b"x", NOW)] };
    shard.call(Verb::Put, &put.args()).await.unwrap();
    let receipt = shard.call(Verb::Reserve, &["10", "0", "1000", "t"]).await.unwrap()[10].clone();
    let before = format!("{:?}", shard.snapshot().await.indexes);
    for ms in ["9007199254740992", "99999999999999999999", "-1", "1.5", "soon", "inf"] {
        let release = [receipt.as_slice(), ms.as_bytes(), b"", b"why"];
        let word = lossy(&shard.call(Verb::Release, &release).await.unwrap()[0]);
        assert_eq!(word, format!("failed invalid delay ({ms} ms)"));
        let word = lossy(&shard.call(Verb::Extend, &[receipt.as_slice(), ms.as_bytes()]).await.unwrap()[0]);
        assert_eq!(word, format!("failed a lease of {ms} ms is not 1 ms to a day"));
    }
    assert_eq!(format!("{:?}", shard.snapshot().await.indexes), before);
    let all = vec![GiveBack { receipt, delay: Some(1 << 52), keep: false }];
    let word = shard.call(Verb::Release, &Action::Release { all }.args()).await.unwrap();
    assert_eq!(lossy(&word[0]), format!("delayed {}", NOW + (1 << 52)));
}

#[tokio::test]
async fn the_client_hears_that_a_delay_is_too_long() {
    let Deployment { server: _server, client, producer, admin: _ } = Deployment::new(1).await;
    let topic = Topic::new("t").unwrap();
    producer.put(Message::new(topic.clone(), "x")).await.unwrap();
    let request =
        delayq::protocol::ReserveRequest { topics: vec![topic], most: 1, max_bytes: 0, lease: None };
    let shard = delayq::protocol::ShardId::new(0);
    let holder = Holder::new(client);
    let receipt = holder.reserve(&[(shard, request)]).await.remove(0).unwrap().messages.remove(0).receipt;
    let forever = Duration::from_secs(u64::MAX / 1000);
    let settled = holder.extend(std::slice::from_ref(&receipt), Some(forever)).await.remove(0).unwrap();
    assert!(matches!(&settled, Settled::Failed(why) if why.ends_with("is not 1 ms to a day")), "{settled:?}");
    assert_eq!(holder.ack(&[receipt]).await.remove(0).unwrap(), Settled::Delivered);
}

#[tokio::test]
async fn a_topic_gets_no_number_from_a_put_that_a_key_of_the_wrong_type_refuses() {
    let server = RedisServer::start().await;
    let mut shard = bare(&server).await;
    shard.command(&[b"SADD", b"~t:1", b"x"]).await;
    let put = Action::Put { topic: "t".into(), items: vec![Item::new(b"x", NOW)] };
    let why = shard.call(Verb::Put, &put.args()).await.unwrap_err();
    assert!(why.starts_with("WRONGTYPE"), "{why}");
    assert_eq!(shard.snapshot().await.number("meta", "topics"), 0);
}

#[tokio::test]
async fn a_put_is_told_that_its_id_is_taken_by_a_later_format_or_by_no_message() {
    let Deployment { server, client: _, producer, admin: _ } = Deployment::new(1).await;
    let message = |id: &str| Message::new(Topic::new("t").unwrap(), "x").id(id).unwrap();
    producer.put(message("first")).await.unwrap();
    for (id, body) in [
        ("newer", format!("\u{2}{}", "x".repeat(40))),
        ("flagged", format!("\u{1}\u{1}\u{20}{}", "\0".repeat(40))),
        ("malformed", "x".into()),
    ] {
        let () = server.command(&["SET", &format!("{{dq:0}}:m:1:{id}"), &body]).await;
    }
    for id in ["newer", "flagged"] {
        assert_eq!(producer.put(message(id)).await.unwrap().outcome, PutOutcome::Newer, "{id}");
    }
    assert_eq!(producer.put(message("malformed")).await.unwrap().outcome, PutOutcome::Malformed);
}
