//! Fair order: groups that take turns, backlogs that delay nobody else, and changes of the order with messages under way.

use crate::action::{Action, Item, Reserve};
use crate::bare_shard::{BareShard, NOW, scripts_with};
use crate::lab::{Lab, in_g, item};
use crate::snapshot::lossy;
use delayq::admin::{GroupOrder, ListState, Policy, PurgeWhat, TimeRange};
use delayq::{Message, Topic};
use delayq_tests::deployment::Deployment;
use std::collections::BTreeSet;

/// The first of the messages of one group, which the others are to delay no longer than one turn.
const MANY: usize = 20_000;

/// Where each script is cut off: the file, and the text in front of which an error ends the script.
const CUTS: [(&str, &str); 8] = [
    ("lib/fair", "redis.call('ZADD', groups, 'NX', now, group)"),
    ("lib/fair", "redis.call(leads and 'LPUSH'"),
    ("lib/reserve/turns", "redis.call('ZADD', turns, next_turn(no), group)\n          again"),
    ("lib/reserve/turns", "redis.call('ZREM', base .. 'k:' .. no, group)"),
    ("lib/reserve/groups", "local list = base .. 'p:'"),
    ("lib/reserve/take", "redis.call('LTRIM', queue, seen"),
    ("lib/reserve/take", "for i = 1, #heads, 2 do call("),
    ("configure", "if redis.call('EXISTS', full) == 1 then"),
];

async fn order(lab: &mut Lab, order: &str) {
    lab.words(Action::configure("t", "group_order", order)).await;
}

/// The ids that a reserve hands out.
async fn reserved(lab: &mut Lab, most: u64) -> Vec<String> {
    let answer = lab.run(Action::Reserve(Reserve::from("t", most, Some(600_000)))).await.unwrap();
    let receipts = answer.get(9..).unwrap_or_default().chunks(3).map(|one| one[1].clone());
    let id = |receipt: &[u8]| receipt[2..receipt.len() - 4].split(|&byte| byte == 0x1f).next().map(lossy);
    receipts.filter_map(|receipt| id(&receipt)).collect()
}

async fn put_all(lab: &mut Lab, items: &[Item]) {
    for some in items.chunks(500) {
        lab.put("t", some).await;
    }
}

async fn left(lab: &mut Lab) -> Vec<String> {
    let shard = lab.shard.snapshot().await;
    let indexes =
        shard.indexes.iter().filter(|(name, _)| ["k:", "n:"].iter().any(|kind| name.starts_with(kind)));
    let indexes = indexes.map(|(name, _)| name.clone());
    indexes.chain(shard.parked.keys().map(|(_, group)| format!("p:{group}"))).collect()
}

/// Messages of one group with own ids, and with generated ids if `generated`.
fn many(generated: bool, due: u64) -> Vec<Item> {
    let one = |n: usize| match generated {
        true => {
            let mut id = [1; 16];
            id[8..].copy_from_slice(&(n as u64).to_be_bytes());
            Item::new(&id, due).in_group("big")
        }
        false => item(&format!("big-{n:06}"), due).in_group("big"),
    };
    (0..MANY).map(one).collect()
}

#[tokio::test]
async fn many_messages_of_one_group_do_not_delay_one_of_another() {
    for (generated, is_delayed) in [(false, true), (true, true), (false, false)] {
        let mut lab = Lab::new().await;
        order(&mut lab, "fair").await;
        let due = if is_delayed { NOW + 10 } else { NOW };
        put_all(&mut lab, &many(generated, due)).await;
        put_all(&mut lab, &[item("small", due + 1).in_group("small"), item("alone", due + 1)]).await;
        lab.at(20);
        while lab.pump().await[0] == "more" {}
        let mut first = Vec::new();
        for _ in 0..3 {
            first.extend(reserved(&mut lab, 1).await);
        }
        let is_found = |id: &str| first.iter().any(|other| other == id);
        assert!(is_found("small") && is_found("alone"), "{generated} {is_delayed}: {first:?}");
        put_all(&mut lab, &[item("next", NOW).in_group("small")]).await;
        let together = reserved(&mut lab, 100).await;
        assert_eq!(together.len(), 100);
        assert!(together.contains(&"next".to_owned()), "groups share what is wanted");
    }
}

#[tokio::test]
async fn groups_take_turns_however_many_messages_they_have() {
    let mut lab = Lab::new().await;
    order(&mut lab, "fair").await;
    let of = |group: &'static str, many: usize| {
        (0..many).map(move |n| item(&format!("{group}{n}"), NOW).in_group(group))
    };
    let items: Vec<_> =
        of("a", 6).chain(of("b", 2)).chain(of("c", 3)).chain([item("x0", NOW), item("x1", NOW)]).collect();
    put_all(&mut lab, &items).await;
    let mut turns = Vec::new();
    for _ in 0..items.len() {
        turns.extend(reserved(&mut lab, 1).await);
    }
    let wanted = ["a0", "b0", "c0", "x0", "a1", "b1", "c1", "x1", "a2", "c2", "a3", "a4", "a5"];
    assert_eq!(turns, wanted);
    assert_eq!(left(&mut lab).await, [] as [&str; 0]);
}

#[tokio::test]
async fn a_change_of_the_order_leaves_nothing_behind_in_either_direction() {
    let mut lab = Lab::new().await;
    let of =
        |from: usize| (from..from + 600).map(|n| item(&format!("{n}"), NOW).in_group(&format!("g{}", n % 7)));
    let (mut all, mut puts) = (BTreeSet::new(), 0);
    for order_now in ["fair", "ready", "fair", ""] {
        put_all(&mut lab, &of(puts).collect::<Vec<_>>()).await;
        puts += 600;
        order(&mut lab, order_now).await;
        put_all(&mut lab, &[item(&format!("alone-{puts}"), NOW)]).await;
        for _ in 0..5 {
            let some = reserved(&mut lab, 50).await;
            assert!(!some.is_empty(), "a call finds room for some");
            all.extend(some);
        }
    }
    loop {
        let some = reserved(&mut lab, 500).await;
        if some.is_empty() {
            break;
        }
        all.extend(some);
    }
    assert_eq!(all.len(), puts + 4);
    assert_eq!(left(&mut lab).await, [] as [&str; 0]);
}

#[tokio::test]
async fn a_script_that_is_cut_off_in_fair_order_leaves_no_message_behind() {
    for (file, before) in CUTS {
        let cut = format!("error('cut off') {before}");
        let mut lab = Lab::new().await;
        let mut broken = BareShard::uncreated(&lab.server, "p", scripts_with(&[(file, before, &cut)])).await;
        broken.clock_us = Some(NOW * 1000);
        let items = ["a", "b", "c"].map(|id| item(id, NOW).in_group("g"));
        let is_change = file == "configure";
        if file == "lib/reserve/groups" || is_change {
            // Ready before the order is fair.
            lab.put("t", &items).await;
        }
        let change = Action::configure("t", "group_order", "fair");
        if is_change {
            let _refused = broken.call(change.verb(), &change.args()).await;
        }
        order(&mut lab, "fair").await;
        lab.words(Action::configure("t", "lease_ms", "1000")).await;
        if file == "lib/fair" {
            let put = Action::Put { topic: "t".into(), items: items.to_vec() };
            let _refused = broken.call(put.verb(), &put.args()).await;
            lab.put("t", &items).await;
        } else if file != "lib/reserve/groups" && !is_change {
            lab.put("t", &items).await;
        }
        if file.starts_with("lib/reserve") {
            let reserve = Action::Reserve(Reserve::from("t", 2, Some(1000)));
            let _refused = broken.call(reserve.verb(), &reserve.args()).await;
        }
        let mut back = BTreeSet::new();
        for round in 1..6 {
            lab.at(round * 20_000);
            lab.pump().await;
            let receipts = lab.reserve("t").await;
            back.extend(receipts.iter().map(|receipt| lossy(&receipt[2..3])));
            if !receipts.is_empty() {
                lab.words(Action::Ack { receipts }).await;
            }
        }
        let handed_out = ["a", "b", "c"].iter().filter(|id| back.contains(**id)).count();
        assert_eq!(handed_out, 3, "{file}: {before}: {back:?}");
        assert_eq!(left(&mut lab).await, [] as [&str; 0], "{file}: {before}");
    }
}

#[tokio::test]
async fn what_is_cancelled_in_fair_order_does_not_pile_up() {
    let mut lab = Lab::new().await;
    order(&mut lab, "fair").await;
    for n in 0..50 {
        let id = n.to_string();
        lab.put("t", &[item(&id, NOW), item(&id, NOW).in_group("g")]).await;
    }
    for n in 0..50 {
        let id = n.to_string();
        let ids = vec![in_g(&id).into_bytes(), id.into_bytes()];
        lab.words(Action::Cancel { topic: "t".into(), ids }).await;
    }
    assert_eq!(left(&mut lab).await, [] as [&str; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_see_that_a_topic_in_fair_order_holds_nothing() {
    let Deployment { server: _server, client: _client, producer, admin } = Deployment::new(1).await;
    let topic = Topic::new("t").unwrap();
    let policy = Policy { group_order: Some(GroupOrder::Fair), ..Policy::default() };
    admin.topic(&topic).set_policy(&policy).await.unwrap();
    let message = |n: u8| {
        let message = Message::new(topic.clone(), vec![n]);
        if n < 4 { message.group("g").unwrap() } else { message }
    };
    assert!(producer.put_many((0..6).map(message).collect()).await.iter().all(Result::is_ok));
    let numbers = admin.topic(&topic).count().await.unwrap();
    assert_eq!((numbers.ready, numbers.full_groups, numbers.balances()), (6, 0, true));
    assert!(numbers.oldest_ready.is_some());
    let ready = admin.topic(&topic).list(ListState::Ready, TimeRange::ALL, 10).await.unwrap();
    assert_eq!(ready.len(), 6);
    assert!(ready.iter().all(|listed| listed.envelope.as_ref().is_ok_and(|envelope| !envelope.held)));
    assert!(admin.audit().run(|_| {}).await.unwrap().is_clean());
    let purged = admin.topic(&topic).purge(PurgeWhat::Ready, |_| {}).await;
    assert!(purged.is_ok());
    let numbers = admin.topic(&topic).count().await.unwrap();
    assert_eq!((numbers.ready, numbers.purged, numbers.balances()), (0, 6, true));
    assert!(admin.audit().run(|_| {}).await.unwrap().is_clean());
}
