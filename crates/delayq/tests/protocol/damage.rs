//! Envelopes truncated at every byte: no call fails, and the damaged message can still be ended.

use crate::action::{Action, Item, List, Purge};
use crate::bare_shard::{BareShard, NOW, scripts_with};
use crate::lab::{Lab, in_g};
use crate::snapshot::lossy;
use delayq::Backoff;
use delayq::protocol::Verb;
use std::time::Duration;

const IDS: [&str; 3] = ["before", "cut", "behind"];
/// The message in the middle, as keys and calls name it.
const CUT: &[u8] = b"cut\x1fg";
const DUE: u64 = NOW + 1000;

fn full(id: &str) -> Item {
    let mut item = Item::new(id.as_bytes(), DUE);
    (item.expires, item.content) = (Some(NOW + 100_000), 2);
    item.backoff = Some(Backoff::Fixed(Duration::from_millis(10)));
    item.in_group("g")
}

/// Puts three messages of one group into a state, the middle message truncated to `bytes`.
async fn damaged(lab: &mut Lab, state: &str, bytes: usize) {
    lab.put("a", &IDS.map(full)).await;
    if state != "delayed" {
        lab.at(1000);
        lab.pump().await;
    }
    if state == "leased" {
        assert_eq!(lab.reserve("a").await.len(), 3);
    }
    let body = lab.shard.snapshot().await.bodies[&(1, CUT.to_vec())].clone();
    lab.shard.command(&[b"SET", b"~m:1:cut\x1fg", &body[..bytes]]).await;
}

/// Leaves out calls that end a message.
async fn meet(lab: &mut Lab) {
    let (topic, ids) = (|| "a".to_owned(), || vec![CUT.to_vec()]);
    let list = |state| List {
        topic: topic(),
        state,
        from: 0,
        to: NOW * 2,
        newest_first: false,
        last: Vec::new(),
        limit: 9,
    };
    let met = [
        Action::Peek { topic: topic(), ids: ids() },
        Action::List(list("delayed")),
        Action::List(list("ready")),
        Action::List(list("leased")),
        Action::ListGroup { group: "g".into(), behind: (0, Vec::new()), limit: 9 },
        Action::Audit { bodies: vec![b"m:1:cut\x1fg".to_vec()] },
        Action::Reschedule { topic: topic(), changes: vec![(CUT.to_vec(), (DUE + 1).to_string(), None)] },
        Action::ShiftGroup { group: "g".into(), topic: String::new(), token: "t".into(), by: 1, limit: 500 },
        Action::Replay { topic: topic(), delay: 0, ids: ids() },
        Action::Purge(Purge {
            topic: topic(),
            state: "dead",
            from: 0,
            to: NOW * 2,
            last: Vec::new(),
            limit: 9,
        }),
        Action::Put { topic: topic(), items: vec![full("cut")] },
    ];
    for action in met {
        let answer = lab.run(action.clone()).await;
        assert!(answer.is_ok(), "{action:?}: {answer:?}");
    }
}

async fn drain(lab: &mut Lab) -> Vec<String> {
    let mut delivered = Vec::new();
    for round in 2..12 {
        lab.at(round * 2000);
        for _ in 0..3 {
            lab.pump().await;
        }
        let receipts = lab.reserve("a").await;
        let words = lab.run(Action::Ack { receipts: receipts.clone() }).await;
        let words = if receipts.is_empty() { Vec::new() } else { words.unwrap() };
        let acked = receipts.iter().zip(words).filter(|(_, word)| word == b"delivered");
        delivered.extend(acked.map(|(receipt, _)| lossy(&receipt[2..receipt.len() - 4])));
    }
    lab.at(200_000);
    for _ in 0..3 {
        lab.pump().await;
    }
    delivered
}

#[tokio::test]
async fn an_envelope_that_is_cut_off_at_any_byte_stops_nothing_and_has_a_way_out() {
    let mut lab = Lab::new().await;
    let whole = full("cut").envelope().encode().len();
    for state in ["delayed", "ready", "leased"] {
        for bytes in 0..whole {
            let namespace = format!("{state}{bytes}");
            lab.shard = BareShard::create(&lab.server, &namespace, scripts_with(&[])).await;
            lab.at(0);
            damaged(&mut lab, state, bytes).await;
            meet(&mut lab).await;
            let delivered = drain(&mut lab).await;
            let what = format!("{state}, cut to {bytes} bytes");
            for id in ["before", "behind"] {
                assert!(delivered.contains(&in_g(id)), "{what}: {delivered:?}");
            }
            let after = lab.shard.snapshot().await;
            assert!(after.ready.is_empty() && after.buckets.is_empty(), "{what}: {after:?}");
            assert!(after.index("leases").is_empty(), "{what}: {after:?}");
            for counter in ["ready:1", "leased:1"] {
                assert_eq!(after.number("stats", counter), 0, "{what}: {counter}");
            }
            let is_over = |body: &Vec<u8>| body[1] > 3;
            assert!(after.bodies.values().all(is_over), "{what}: {:?}", after.bodies);
            lab.shard.call(Verb::Count, &["a", "0"]).await.unwrap();
        }
    }
}
