//! Gens and receipts, which tell one life of an id from the next.

use super::{bare, put, reserve, run, stored};
use crate::action::{Action, GiveBack, Item};
use crate::bare_shard::NOW;
use delayq_tests::redis_server::RedisServer;

#[tokio::test]
async fn a_cancelled_and_put_again_id_does_not_fire_from_its_old_entry() {
    let server = RedisServer::start().await;
    let mut shard = bare(&server).await;
    run(&mut shard, &put(vec![Item::new(b"a", NOW)])).await;
    run(&mut shard, &Action::Cancel { topic: "t".into(), ids: vec![b"a".to_vec()] }).await;
    let again = Item { replace: true, ..Item::new(b"a", NOW + 5000) };
    assert_eq!(run(&mut shard, &put(vec![again])).await[1], "stored");
    assert!(reserve(&mut shard, 10, None).await.is_empty(), "the entry of the cancelled life was taken");
    assert!(shard.snapshot().await.ready.is_empty(), "the script that meets a stale entry drops it");
    shard.clock_us = Some((NOW + 5000) * 1000);
    run(&mut shard, &Action::Pump { epoch: Some(0), limit: 500 }).await;
    assert_eq!(reserve(&mut shard, 10, None).await.len(), 1);
}

#[tokio::test]
async fn a_lease_is_settled_once_and_never_by_the_receipt_of_an_earlier_delivery() {
    let server = RedisServer::start().await;
    let mut shard = bare(&server).await;
    run(&mut shard, &put(vec![Item::new(b"a", NOW)])).await;
    let first = reserve(&mut shard, 1, None).await;
    let all = vec![GiveBack { receipt: first[0].clone(), delay: Some(0), keep: false }];
    run(&mut shard, &Action::Release { all: all.clone() }).await;
    let second = reserve(&mut shard, 1, None).await;
    let before = shard.snapshot().await;
    assert_eq!(run(&mut shard, &Action::Ack { receipts: first.clone() }).await, ["expired"]);
    assert_eq!(run(&mut shard, &Action::Bury { receipts: first.clone() }).await, ["expired"]);
    assert_eq!(run(&mut shard, &Action::Extend { receipts: first, lease: None }).await, ["expired"]);
    assert_eq!(run(&mut shard, &Action::Release { all }).await, ["expired"]);
    assert_eq!(shard.snapshot().await.indexes["leases"], before.indexes["leases"]);
    assert_eq!(run(&mut shard, &Action::Ack { receipts: second.clone() }).await, ["delivered"]);
    assert_eq!(run(&mut shard, &Action::Ack { receipts: second }).await, ["expired"]);
}

#[tokio::test]
async fn every_move_gives_a_higher_gen_that_the_envelope_repeats() {
    let server = RedisServer::start().await;
    let mut shard = bare(&server).await;
    let mut last = 0;
    let mut moves = vec![
        put(vec![Item::new(b"a", NOW + 5)]),
        Action::Reschedule { topic: "t".into(), changes: vec![(b"a".to_vec(), NOW.to_string(), None)] },
    ];
    for verb in ["reserve", "release", "reserve", "bury", "replay", "reserve"] {
        for action in moves.drain(..) {
            run(&mut shard, &action).await;
            let generation = stored(&mut shard, b"a").await.generation;
            assert!(generation > last, "{action:?} left gen {generation} after {last}");
            last = generation;
        }
        let leases = shard.snapshot().await.index("leases").keys().cloned().collect::<Vec<_>>();
        match verb {
            "release" => {
                let all = vec![GiveBack { receipt: leases[0].clone(), delay: Some(0), keep: false }];
                moves.push(Action::Release { all });
            }
            "bury" => moves.push(Action::Bury { receipts: leases }),
            "replay" => moves.push(Action::Replay { topic: "t".into(), delay: 0, ids: vec![b"a".to_vec()] }),
            _ => {
                let receipt = reserve(&mut shard, 1, None).await.remove(0);
                let generation = stored(&mut shard, b"a").await.generation;
                assert!(generation > last && receipt.ends_with(&generation.to_be_bytes()));
                last = generation;
            }
        }
    }
}

#[tokio::test]
async fn the_delivery_always_rises_and_the_attempt_is_what_the_maximum_counts() {
    let server = RedisServer::start().await;
    let mut shard = bare(&server).await;
    run(&mut shard, &put(vec![Item { max: 2, ..Item::new(b"a", NOW) }])).await;
    let mut seen = Vec::new();
    for (keep, word) in
        [(true, "ready"), (false, "ready"), (false, "buried"), (false, "ready"), (false, "buried")]
    {
        let receipt = reserve(&mut shard, 1, None).await.remove(0);
        let held = stored(&mut shard, b"a").await;
        seen.push((held.delivery, held.attempt));
        let all = vec![GiveBack { receipt, delay: Some(0), keep }];
        let answer = run(&mut shard, &Action::Release { all }).await;
        assert!(answer[0].starts_with(word), "{answer:?} after {seen:?}");
        if word == "buried" {
            let replay = Action::Replay { topic: "t".into(), delay: 0, ids: vec![b"a".to_vec()] };
            run(&mut shard, &replay).await;
        }
    }
    assert_eq!(seen, [(1, 1), (2, 1), (3, 2), (4, 1), (5, 2)]);
}
