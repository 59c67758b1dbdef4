//! Obstacles in a queue that a reserve may meet: none stops other messages.

use crate::action::{Action, Item, Reserve};
use crate::bare_shard::{BareShard, NOW, scripts_with};
use crate::lab::{Lab, grouped, in_g, item};
use crate::snapshot::{Snapshot, lossy};
use delayq::protocol::Verb;
use delayq_tests::redis_server::RedisServer;

async fn truncate(lab: &mut Lab, id: &str, bytes: usize) {
    let body = lab.shard.snapshot().await.bodies[&(1, id.as_bytes().to_vec())].clone();
    lab.shard.command(&[b"SET", format!("~m:1:{id}").as_bytes(), &body[..bytes]]).await;
}

fn stuck(shard: &Snapshot) -> Vec<String> {
    let is_stuck = |(name, body): &(&(u32, Vec<u8>), &Vec<u8>)| {
        let receipt = [format!("{}:", name.0).as_bytes(), &name.1, &body[4..8]].concat();
        body[1] == 3 && !shard.index("leases").contains_key(&receipt)
    };
    shard.bodies.iter().filter(is_stuck).map(|(name, _)| lossy(&name.1)).collect()
}

#[tokio::test]
async fn a_truncated_envelope_stops_no_other_message() {
    for bytes in [32, 36, 40, 44, 47] {
        let mut lab = Lab::new().await;
        let mut expiring = item("cut", NOW);
        expiring.expires = Some(NOW + 100_000);
        lab.put("a", &[item("before", NOW), expiring, item("behind", NOW)]).await;
        truncate(&mut lab, "cut", bytes).await;
        let receipts = lab.reserve("a").await;
        assert_eq!(receipts.len(), 2, "cut to {bytes} bytes");
        let shard = lab.shard.snapshot().await;
        assert_eq!((stuck(&shard).len(), shard.dead.len()), (0, 1), "cut to {bytes} bytes: {shard:?}");
    }
}

#[tokio::test]
async fn an_expired_message_with_a_truncated_group_is_dead_and_not_tried_for_ever() {
    for is_ready in [true, false] {
        let mut lab = Lab::new().await;
        lab.put(
            "a",
            &[grouped("cut", if is_ready { NOW } else { NOW + 200_000 - 101_000 }), item("whole", NOW)],
        )
        .await;
        truncate(&mut lab, &in_g("cut"), 49).await;
        lab.at(100_000);
        if is_ready {
            assert_eq!(lab.reserve("a").await.len(), 1);
        } else {
            let report = lab.pump().await;
            assert_eq!((&report[5], &report[8]), (&"1".to_owned(), &"0".to_owned()), "buried and blocked");
        }
        let shard = lab.shard.snapshot().await;
        assert_eq!(shard.dead.len(), 1, "{shard:?}");
    }
}

#[tokio::test]
async fn a_truncated_envelope_stops_no_shift_of_its_group() {
    let mut lab = Lab::new().await;
    lab.put("a", &[grouped("one", NOW + 10), grouped("cut", NOW + 20), grouped("two", NOW + 30)]).await;
    truncate(&mut lab, &in_g("cut"), 42).await;
    let shift = Action::ShiftGroup {
        group: "g".into(),
        topic: String::new(),
        token: "t".into(),
        by: 1000,
        limit: 500,
    };
    assert_eq!(lab.words(shift).await, ["done", "2", "1"]);
}

/// The payload has 1,000 bytes.
async fn put_big(lab: &mut Lab, id: &str) -> usize {
    let envelope = [&item(id, 0).envelope().encode()[..], &[b'x'; 999]].concat();
    let due = NOW.to_string();
    lab.shard
        .call(Verb::Put, &[b"a".as_slice(), id.as_bytes(), due.as_bytes(), b"", &envelope])
        .await
        .unwrap();
    envelope.len()
}

#[tokio::test]
async fn a_reserve_that_stops_at_its_bytes_says_to_come_back_at_once() {
    let mut lab = Lab::new().await;
    let mut bytes = 0;
    for id in ["one", "two", "three"] {
        bytes = put_big(&mut lab, id).await;
    }
    lab.put("b", &[item("other", NOW)]).await;
    // The limit counts the bytes of stored envelopes.
    for (max_bytes, taken, wait) in [(2 * bytes, 2, "0"), (bytes + 1, 1, "0"), (2 * bytes, 1, "")] {
        let reserve = Reserve {
            topics: vec!["a".into(), "b".into()],
            most: 100,
            max_bytes: max_bytes as u64,
            lease: Some(1000),
        };
        let mut answer = lab.words(Action::Reserve(reserve)).await;
        let of_a: usize = answer.get(8).map_or(0, |n| n.parse().unwrap());
        if taken != of_a {
            answer.truncate(9);
        }
        assert_eq!((of_a.min(taken), answer[1].as_str()), (taken.min(of_a), wait), "{max_bytes}: {answer:?}");
    }
}

#[tokio::test]
async fn a_message_of_a_later_format_ends_no_batch_and_suppresses_no_wake() {
    later_ends_no_batch(b"0", &[2], &[1]).await;
}

#[tokio::test]
async fn a_message_with_a_later_flag_ends_no_batch_and_suppresses_no_wake() {
    later_ends_no_batch(b"2", &[32, 1], &[0, 1]).await;
}

/// Overwrites a message at `offset` by the `later` bytes of a later version, and at the end by the `known` bytes.
async fn later_ends_no_batch(offset: &[u8], later: &[u8], known: &[u8]) {
    let mut lab = Lab::new().await;
    lab.put("a", &[item("newer", NOW), item("one", NOW), item("two", NOW)]).await;
    lab.shard.command(&[b"SETRANGE", b"~m:1:newer", offset, later]).await;
    let three = Action::Reserve(Reserve::from("a", 3, Some(1000)));
    let answer = lab.words(three).await;
    assert_eq!((answer[5].as_str(), answer[8].as_str()), ("1", "2"), "newer and taken: {answer:?}");
    let before = lab.shard.snapshot().await.said.len();
    lab.at(1);
    lab.put("a", &[item("three", NOW)]).await;
    let shard = lab.shard.snapshot().await;
    let woken = shard.said[before..].iter().filter(|said| said.ends_with(":ready=a")).count();
    assert_eq!(woken, 1, "{:?}", &shard.said[before..]);
    // The message returns by itself, for a worker that knows the format.
    lab.at(10_001);
    lab.pump().await;
    lab.shard.command(&[b"SETRANGE", b"~m:1:newer", offset, known]).await;
    let ids: Vec<_> =
        lab.reserve("a").await.iter().map(|receipt| lossy(&receipt[2..receipt.len() - 4])).collect();
    assert!(ids.contains(&"newer".to_owned()), "{ids:?}");
}

/// Scripts that change nothing after their `n`-th command, as if the machine had died there.
fn cut_behind(n: u32) -> std::sync::Arc<delayq::protocol::Scripts> {
    let cut = format!(
        "local redis, left = redis, {n}\n\
         do\n  local whole = redis\n  local function stop() left = left - 1 if left < 0 then error('cut') end end\n  \
         redis = setmetatable({{ call = function(...) stop() return whole.call(...) end, \
         pcall = function(...) stop() return whole.pcall(...) end }}, {{ __index = whole }})\nend\n"
    );
    scripts_with(&[("reserve", "--# include now", &format!("{cut}--# include now"))])
}

#[tokio::test]
async fn a_reserve_that_is_cut_off_leaves_no_message_stuck() {
    let server = RedisServer::start().await;
    for n in 0..40 {
        let namespace = format!("cut{n}");
        let mut shard = BareShard::create(&server, &namespace, scripts_with(&[])).await;
        shard.clock_us = Some(NOW * 1000);
        let items = (0..3_u8).map(|n| Item::new(&[b'a' + n], NOW)).collect();
        shard.call(Verb::Put, &Action::Put { topic: "t".into(), items }.args()).await.unwrap();
        let mut cut = BareShard::uncreated(&server, &namespace, cut_behind(n)).await;
        cut.clock_us = Some(NOW * 1000);
        let reserve = Action::Reserve(Reserve::from("t", 100, Some(1000)));
        let was_cut = cut.call(Verb::Reserve, &reserve.args()).await.is_err();
        let after = shard.snapshot().await;
        assert!(stuck(&after).is_empty(), "cut behind command {n}: {after:?}");
        shard.clock_us = Some((NOW + 600_000) * 1000);
        for _ in 0..3 {
            shard.call(Verb::Pump, &["0", "500"]).await.unwrap();
            shard.clock_us = shard.clock_us.map(|us| us + 60_000_000);
        }
        let answer = shard.call(Verb::Reserve, &reserve.args()).await.unwrap();
        assert_eq!(answer[8], b"3", "cut behind command {n}");
        if !was_cut {
            assert!(n > 8, "cut at all");
            return;
        }
    }
    panic!("it was always cut");
}
