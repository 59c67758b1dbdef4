//! Keys of the wrong type, invalid entries, unreadable bodies: the calls that stop, or continue.

use crate::action::{Action, GiveBack, Item, Purge};
use crate::bare_shard::NOW;
use crate::lab::{Lab, grouped, in_g, item};
use crate::snapshot::lossy;
use delayq::protocol::Verb;

/// A message in every state; returns the receipt of the leased one.
async fn full(lab: &mut Lab) -> Vec<u8> {
    let items = [grouped("leased", NOW), grouped("dead", NOW), grouped("over", NOW)];
    lab.put("a", &items).await;
    let receipts = lab.reserve("a").await;
    lab.words(Action::Bury { receipts: vec![receipts[1].clone()] }).await;
    lab.words(Action::Ack { receipts: vec![receipts[2].clone()] }).await;
    lab.put(
        "a",
        &[grouped("ready", NOW), grouped("soon", NOW + 500), grouped("late", NOW + 7_200_000 / 100)],
    )
    .await;
    lab.put("b", &[item("other", NOW + 500)]).await;
    receipts[0].clone()
}

#[tokio::test]
async fn a_key_of_the_wrong_type_stops_no_other_topic() {
    let bucket = format!("b:1:{}", NOW / 3_600_000);
    for key in ["ends", "expiries", "r:1", "d:1", "w:1", "t:1", "g:g", &bucket] {
        let mut lab = Lab::new().await;
        let receipt = full(&mut lab).await;
        lab.at(400);
        lab.shard.break_key(key).await;
        let topic = || "a".to_owned();
        let of_one = |id: &str, due: u64| vec![(in_g(id).into(), due.to_string(), None)];
        for action in [
            Action::Put { topic: topic(), items: vec![grouped("new", NOW + 800), grouped("now", NOW)] },
            Action::Cancel { topic: topic(), ids: vec![in_g("soon").into(), in_g("ready").into()] },
            Action::Reschedule { topic: topic(), changes: of_one("late", NOW) },
            Action::Release { all: vec![GiveBack { receipt: receipt.clone(), delay: Some(0), keep: false }] },
            Action::Ack { receipts: vec![receipt.clone()] },
            Action::Replay { topic: topic(), delay: 0, ids: vec![in_g("dead").into()] },
        ] {
            let said = lab.run(action.clone()).await;
            let words = said.unwrap_or_else(|why| vec![why.into_bytes()]);
            let faults = words.iter().map(|word| lossy(word)).filter(|word| word.contains("TYPE"));
            assert!(
                faults.into_iter().all(|fault| fault.contains("WRONGTYPE")),
                "{key}, {action:?}: {words:?}"
            );
        }
        lab.at(600);
        lab.pump().await;
        assert_eq!(lab.reserve("b").await.len(), 1, "{key}: topic b does not go on");
    }
}

#[tokio::test]
async fn entries_that_make_no_sense_stop_nothing() {
    let mut lab = Lab::new().await;
    lab.put("a", &[item("one", NOW + 500), item("two", NOW)]).await;
    let hour = NOW / 3_600_000;
    let bucket = format!("~b:1:{hour}");
    let due = (NOW + 400).to_string();
    lab.shard
        .command(&[b"ZADD", bucket.as_bytes(), due.as_bytes(), b"x", due.as_bytes(), b"gone\0\0\0\x02"])
        .await;
    lab.shard.command(&[b"LPUSH", b"~r:1", b"", b"zz", b"gone\0\0\0\x02\0\0\0\0\0\0\0"]).await;
    for index in ["~leases", "~expiries", "~markers", "~ends"] {
        let words: [&[u8]; 8] = [b"ZADD", index.as_bytes(), b"1", b"nonsense", b"1", b"9:x", b"1", b""];
        lab.shard.command(&words).await;
        let name = &index[1..];
        lab.shard.command(&[b"ZADD", b"~alarms", b"1", name.as_bytes()]).await;
    }
    lab.at(1000);
    let report = lab.pump().await;
    assert_eq!(&report[3..9], ["3", "0", "0", "0", "0", "0"], "{report:?}");
    let receipts = lab.reserve("a").await;
    let ids: Vec<String> = receipts.iter().map(|receipt| lossy(&receipt[2..receipt.len() - 4])).collect();
    assert_eq!(ids, ["two", "one"]);
    lab.words(Action::Ack { receipts }).await;
    let left = lab.shard.snapshot().await;
    assert!(
        left.ready.is_empty() && left.buckets.is_empty() && left.indexes.keys().eq(["alarms", "ends"].iter()),
        "{left:?}"
    );
}

#[tokio::test]
async fn an_id_without_a_body_is_dropped_and_those_behind_it_are_delivered() {
    let mut lab = Lab::new().await;
    lab.put("a", &[item("one", NOW), item("two", NOW), item("three", NOW + 10)]).await;
    lab.shard.command(&[b"DEL", b"~m:1:one"]).await;
    lab.at(10);
    lab.pump().await;
    assert_eq!(lab.reserve("a").await.len(), 2);
}

async fn set_format(lab: &mut Lab, id: &str, format: u8) {
    let key = format!("~m:1:{id}");
    lab.shard.command(&[b"SETRANGE", key.as_bytes(), b"0", &[format]]).await;
}

#[tokio::test]
async fn a_message_of_a_later_format_stays_where_it_is_and_is_refused_by_name() {
    let mut lab = Lab::new().await;
    lab.put("a", &[grouped("held", NOW)]).await;
    let held = lab.reserve("a").await;
    lab.put("a", &[grouped("new", NOW), grouped("old", NOW)]).await;
    set_format(&mut lab, &in_g("new"), 3).await;
    set_format(&mut lab, &in_g("held"), 3).await;
    let old = lab.reserve("a").await;
    assert_eq!(old.len(), 1);
    for id in ["new", "held"] {
        let ids = vec![in_g(id).into()];
        assert_eq!(lab.words(Action::Cancel { topic: "a".into(), ids }).await, ["failed newer"]);
    }
    let refused = ["failed newer envelope"];
    assert_eq!(lab.words(Action::Ack { receipts: held.clone() }).await, refused);
    assert_eq!(lab.words(Action::Bury { receipts: held.clone() }).await, refused);
    let release = GiveBack { receipt: held[0].clone(), delay: None, keep: false };
    assert_eq!(lab.words(Action::Release { all: vec![release] }).await, refused);
    assert_eq!(lab.words(Action::Extend { receipts: held.clone(), lease: Some(1) }).await, refused);
    let (topic, last) = ("a".into(), Vec::new());
    let purge = Action::Purge(Purge { topic, state: "ready", from: 0, to: 0, last, limit: 500 });
    assert_eq!(lab.words(purge).await[..2], ["done", "0"]);
    lab.at(200_000);
    for _ in 0..3 {
        lab.pump().await;
    }
    set_format(&mut lab, &in_g("new"), 1).await;
    set_format(&mut lab, &in_g("held"), 1).await;
    lab.at(300_000);
    lab.pump().await;
    lab.pump().await;
    let numbers = lab.words(Action::Count { topic: "a".into() }).await;
    assert_eq!(&numbers[3..9], ["0", "0", "0", "3", "0", "0"], "{numbers:?}");
    assert_eq!(numbers[9], "3", "all three expired: {numbers:?}");
}

#[tokio::test]
async fn markers_of_a_later_format_are_put_off_and_do_not_make_the_timer_pump_again_and_again() {
    let mut lab = Lab::new().await;
    let ids = ["one", "two", "three"];
    lab.put("a", &ids.map(|id| item(id, NOW))).await;
    let receipts = lab.reserve("a").await;
    lab.words(Action::Ack { receipts }).await;
    for id in ids {
        set_format(&mut lab, id, 2).await;
    }
    lab.at(7_200_000);
    for word in ["more", "pumped", "pumped"] {
        let words = lab.words(Action::Pump { epoch: Some(0), limit: 2 }).await;
        assert_eq!(words[0], word, "{words:?}");
        let next = if word == "more" { 0 } else { NOW + 7_210_000 };
        assert!(words[2].parse::<u64>().unwrap() >= next, "{words:?}");
    }
    for id in ids {
        set_format(&mut lab, id, 1).await;
    }
    lab.at(7_220_000);
    lab.pump().await;
    assert!(lab.shard.snapshot().await.leftovers().is_empty());
}

#[tokio::test]
async fn a_malformed_envelope_is_dead_with_its_reason_and_what_it_held() {
    let mut lab = Lab::new().await;
    lab.put("a", &[item("short", NOW), item("nought", NOW), item("leased", NOW)]).await;
    lab.shard.command(&[b"SET", b"~m:1:short", b"tiny"]).await;
    set_format(&mut lab, "nought", 0).await;
    let receipts = lab.reserve("a").await;
    assert_eq!(receipts.len(), 1);
    set_format(&mut lab, "leased", 0).await;
    lab.at(2000);
    lab.pump().await;
    let shard = lab.shard.snapshot().await;
    assert_eq!(shard.dead.len(), 3, "{:?}", shard.dead);
    for (_, id) in shard.bodies.keys().cloned().collect::<Vec<_>>() {
        let stored = shard.envelope(&(1, id.clone())).unwrap();
        assert_eq!(stored.reason.as_deref(), Some("malformed envelope"));
        assert_eq!(id == b"short", stored.payload == b"tiny");
    }
    let numbers = lab.words(Action::Count { topic: "a".into() }).await;
    assert_eq!(&numbers[3..7], ["0", "0", "3", "3"], "{numbers:?}");
}

#[tokio::test]
async fn a_put_whose_id_does_not_name_its_group_is_refused_and_stores_nothing() {
    let mut lab = Lab::new().await;
    let grouped = item("a", NOW + 1000).in_group("g");
    let ids = ["a", "g", "\u{1f}g", "ag", "a\u{1f}", "a\u{1f}gg", "a\u{1f}h", "fifteen-bytes--g"];
    for id in ids {
        let misnamed = Item { id: id.into(), ..grouped.clone() };
        for misnamed in [Item { replace: true, ..misnamed.clone() }, misnamed] {
            assert_eq!(lab.put("t", &[misnamed]).await, ["refused id without its group"], "{id:?}");
        }
    }
    let shard = lab.shard.snapshot().await;
    assert!(shard.leftovers().is_empty() && shard.number("stats", "accepted:1") == 0, "{shard:?}");
    let generated = Item::new(&[1; 16], NOW + 1000).in_group("g");
    assert_eq!(lab.put("t", &[grouped, generated]).await, ["stored", "stored"]);
}

#[tokio::test]
async fn a_put_whose_fields_cannot_be_read_back_is_refused_and_stores_nothing() {
    let mut lab = Lab::new().await;
    let head = |flags: u16| [&[1, 1][..], &flags.to_be_bytes(), &[0; 28]].concat();
    let cases: [(&str, Vec<u8>); 9] = [
        ("refused format", vec![1; 31]),
        ("refused format", [&[2][..], &[0; 31]].concat()),
        ("refused", head(1)),
        ("refused", head(1 + 16)),
        ("refused", [head(4), vec![9, 1, 0]].concat()),
        ("refused", [head(4), vec![5, 9, 0, 0, 0, 1]].concat()),
        ("refused", [head(8), vec![200, b'g']].concat()),
        ("refused flags", head(64)),
        ("refused flags", head(128)),
    ];
    for (why, envelope) in cases {
        let due = NOW.to_string();
        let args: [&[u8]; 5] = [b"a", b"id", due.as_bytes(), b"", &envelope];
        let words = lab.shard.call(Verb::Put, &args).await.unwrap();
        assert!(lossy(&words[1]).starts_with(why), "{envelope:?}: {}", lossy(&words[1]));
    }
    let shard = lab.shard.snapshot().await;
    assert!(shard.leftovers().is_empty() && shard.number("stats", "accepted:1") == 0, "{shard:?}");
}
