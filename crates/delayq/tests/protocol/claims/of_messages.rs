//! The life of a message: leases, markers, moves, pause and rate, expiry.

use super::{SHARD, bare, put, request, reserve, run, stored};
use crate::action::{Action, GiveBack, Item, Reserve};
use crate::bare_shard::NOW;
use delayq::protocol::Holder;
use delayq::{Message, PutOutcome, State, Topic, UnixMillis};
use delayq_tests::deployment::Deployment;
use delayq_tests::redis_server::RedisServer;

#[tokio::test]
async fn a_late_repeat_of_a_put_is_told_how_the_first_one_ended_while_its_topic_remembers() {
    let Deployment { server: _server, client, producer, admin: _ } = Deployment::new(1).await;
    let topic = Topic::new("t").unwrap();
    let message = || Message::new(topic.clone(), "x").id("order-17").unwrap();
    producer.put(message()).await.unwrap();
    let receipt = Holder::new(client.clone())
        .reserve(&[(SHARD, request(&topic))])
        .await
        .remove(0)
        .unwrap()
        .messages
        .remove(0)
        .receipt;
    Holder::new(client.clone()).ack(&[receipt]).await.remove(0).unwrap();
    let again = producer.put(message().first_tried(UnixMillis::new(NOW))).await.unwrap().outcome;
    assert!(matches!(again, PutOutcome::Exists(State::Delivered, _)), "{again:?}");
}

#[tokio::test]
async fn a_topic_that_refuses_repeats_refuses_where_a_cancel_may_be_forgotten_already() {
    let server = RedisServer::start().await;
    let mut shard = bare(&server).await;
    run(&mut shard, &Action::configure("t", "remember_cancelled_ms", "1000")).await;
    run(&mut shard, &Action::configure("t", "repeats", "refuse")).await;
    let mut item = Item::new(b"order-17", NOW + 100_000);
    run(&mut shard, &put(vec![item.clone()])).await;
    run(&mut shard, &Action::Cancel { topic: "t".into(), ids: vec![b"order-17".to_vec()] }).await;
    item.tried = Some(NOW);
    for (now, word) in [(NOW + 999, "exists"), (NOW + 1_000, "stale")] {
        shard.clock_us = Some(now * 1000);
        run(&mut shard, &Action::Pump { epoch: Some(0), limit: 500 }).await;
        let answer = run(&mut shard, &put(vec![item.clone()])).await;
        assert!(answer[1].starts_with(word), "at {now}: {answer:?}");
    }
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
async fn pause_and_rate_act_at_reserve_alone() {
    let server = RedisServer::start().await;
    let mut shard = bare(&server).await;
    let configure = |field, value: &str| Action::configure("t", field, value);
    run(&mut shard, &configure("paused", "1")).await;
    let items: Vec<Item> = (0..100_u8).map(|n| Item::new(format!("a{n:03}").as_bytes(), NOW + 10)).collect();
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
async fn a_lost_reserve_answer_costs_one_lease_time_and_one_attempt() {
    let server = RedisServer::start().await;
    let mut shard = bare(&server).await;
    let mut item = Item::new(b"a", NOW);
    item.backoff = Some(delayq::Backoff::Fixed(std::time::Duration::from_millis(1)));
    run(&mut shard, &put(vec![item])).await;
    drop(reserve(&mut shard, 1, Some(1000)).await);
    let pump = Action::Pump { epoch: Some(0), limit: 500 };
    for (ms, returned) in [(999, "0"), (1000, "1")] {
        shard.clock_us = Some((NOW + ms) * 1000);
        assert_eq!(run(&mut shard, &pump).await[4], returned, "{ms} ms after the reserve");
    }
    shard.clock_us = Some((NOW + 1001) * 1000);
    run(&mut shard, &pump).await;
    assert_eq!(reserve(&mut shard, 1, None).await.len(), 1);
    let stored = stored(&mut shard, b"a").await;
    assert_eq!((stored.delivery, stored.attempt), (2, 2));
}

#[tokio::test]
async fn what_is_remembered_of_a_finished_id_is_a_header_and_only_for_as_long_as_its_topic_says() {
    let server = RedisServer::start().await;
    let mut shard = bare(&server).await;
    let generated = |n: u8| [&[1, 2, 3][..], &[n; 13][..]].concat();
    let ids = [b"acked".to_vec(), b"cancelled".to_vec(), generated(7), generated(8)];
    let item = |id: &Vec<u8>| Item { content: 2, ..Item::new(id, NOW) };
    run(&mut shard, &put(ids.iter().map(item).collect())).await;
    let cancelled = vec![ids[1].clone(), ids[3].clone()];
    run(&mut shard, &Action::Cancel { topic: "t".into(), ids: cancelled }).await;
    let receipts = reserve(&mut shard, 10, None).await;
    run(&mut shard, &Action::Ack { receipts }).await;
    let after = shard.snapshot().await;
    let left = |id: &Vec<u8>| after.bodies.get(&(1, id.clone())).map(Vec::len);
    assert_eq!(ids.each_ref().map(left), [Some(40), Some(40), None, Some(32)], "32 bytes, and 8 of a hash");
    let until = |id: &Vec<u8>| after.forgotten(&(1, id.clone())).map(|ms| ms - NOW);
    let [acked, cancelled, gone, cancelled_too] = ids.each_ref().map(until);
    assert_eq!((gone, cancelled_too), (None, cancelled));
    for (until, remember) in [(acked, 60_000), (cancelled, 3_600_000)] {
        let at_most = remember + remember / 8;
        assert!(until.is_some_and(|ms| (remember..=at_most).contains(&ms)), "{until:?} of {remember}");
    }
}

#[tokio::test]
async fn a_relative_move_needs_the_expected_due_time_and_its_repeat_moves_nothing() {
    let server = RedisServer::start().await;
    let mut shard = bare(&server).await;
    let due = NOW + 1000;
    run(&mut shard, &put(vec![Item::new(b"a", due)])).await;
    let by = |expected| Action::Reschedule {
        topic: "t".into(),
        changes: vec![(b"a".to_vec(), "by +5".to_owned(), expected)],
    };
    assert_eq!(run(&mut shard, &by(None)).await, ["refused due time"]);
    assert_eq!(run(&mut shard, &by(Some(due))).await, [format!("delayed {due} {}", due + 5)]);
    let moved = shard.snapshot().await;
    assert_eq!(run(&mut shard, &by(Some(due))).await, [format!("delayed {} {}", due + 5, due + 5)]);
    assert_eq!(shard.snapshot().await.buckets, moved.buckets);
    assert_eq!(run(&mut shard, &by(Some(due + 1))).await, [format!("changed {}", due + 5)]);
}

#[tokio::test]
async fn a_group_is_shifted_once_under_a_token_however_often_a_step_is_repeated() {
    let server = RedisServer::start().await;
    let mut shard = bare(&server).await;
    let item = |n: u8| Item::new(&[b'a' + n], NOW + 1000 + u64::from(n)).in_group("g");
    run(&mut shard, &put((0..5).map(item).collect())).await;
    let shift = |token: &str| Action::ShiftGroup {
        group: "g".into(),
        topic: String::new(),
        token: token.into(),
        by: 10_000,
        limit: 2,
    };
    assert_eq!(run(&mut shard, &shift("one")).await, ["more", "2", "0"]);
    assert_eq!(run(&mut shard, &shift("two")).await, ["busy", "0", "0"]);
    for words in [["more", "2", "0"], ["done", "1", "0"], ["done", "0", "0"], ["done", "0", "0"]] {
        assert_eq!(run(&mut shard, &shift("one")).await, words);
    }
    let mut dues: Vec<u64> = shard.snapshot().await.buckets.iter().map(|(.., due)| due - NOW).collect();
    dues.sort_unstable();
    assert_eq!(dues, [11_000, 11_001, 11_002, 11_003, 11_004]);
}

#[tokio::test]
async fn a_cancel_of_what_is_leased_says_so_and_it_is_not_tried_again() {
    let server = RedisServer::start().await;
    let mut shard = bare(&server).await;
    run(&mut shard, &put(vec![Item::new(b"a", NOW)])).await;
    let receipts = reserve(&mut shard, 1, Some(1000)).await;
    let cancel = Action::Cancel { topic: "t".into(), ids: vec![b"a".to_vec()] };
    assert_eq!(run(&mut shard, &cancel).await, ["leased"]);
    let extend = Action::Extend { receipts: receipts.clone(), lease: Some(2000) };
    assert_eq!(run(&mut shard, &extend).await, [format!("cancelled {}", NOW + 2000)]);
    let all = vec![GiveBack { receipt: receipts[0].clone(), delay: Some(0), keep: false }];
    assert_eq!(run(&mut shard, &Action::Release { all }).await, ["cancelled"]);
    assert_eq!(run(&mut shard, &cancel).await, ["cancelled"]);
}

#[tokio::test]
async fn a_reserve_that_a_rate_holds_back_says_to_the_millisecond_when_it_may() {
    let server = RedisServer::start().await;
    let mut shard = bare(&server).await;
    run(&mut shard, &Action::configure("t", "rate", "5")).await;
    run(&mut shard, &put(vec![Item::new(b"a", NOW), Item::new(b"b", NOW)])).await;
    let take = Action::Reserve(Reserve::from("t", 1, None));
    assert_eq!(run(&mut shard, &take).await[8], "1");
    let wait: u64 = run(&mut shard, &take).await[1].parse().unwrap();
    assert_eq!(wait, 200);
    for (ms, taken) in [(wait - 1, "0"), (wait, "1")] {
        shard.clock_us = Some((NOW + ms) * 1000);
        assert_eq!(run(&mut shard, &take).await[8], taken, "after {ms} ms");
    }
}

#[tokio::test]
async fn what_is_ready_expires_by_its_time_and_what_is_leased_when_it_is_given_back() {
    let server = RedisServer::start().await;
    let mut shard = bare(&server).await;
    let item = |id: &[u8]| Item { expires: Some(NOW + 100), ..Item::new(id, NOW) };
    run(&mut shard, &put(vec![item(b"leased"), item(b"ready")])).await;
    let receipts = reserve(&mut shard, 1, Some(1000)).await;
    shard.clock_us = Some((NOW + 100) * 1000);
    let report = run(&mut shard, &Action::Pump { epoch: Some(0), limit: 500 }).await;
    assert_eq!(report[6], "1", "expired: {report:?}");
    let all = vec![GiveBack { receipt: receipts[0].clone(), delay: None, keep: false }];
    assert_eq!(run(&mut shard, &Action::Release { all }).await, ["expired-message"]);
    assert_eq!(shard.snapshot().await.number("stats", "expired:1"), 2);
}
