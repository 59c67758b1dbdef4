//! Failed messages that block a group: strict order, every way out, and the views of operators.

use crate::action::{Action, GiveBack, Item, Promote, Purge};
use crate::bare_shard::{BareShard, NOW, scripts_with};
use crate::lab::{Lab, in_g, item};
use crate::snapshot::lossy;
use delayq::admin::{GroupFailed, ListState, Policy, TimeRange};
use delayq::protocol::{Again, DueRule, Holder, ReserveRequest, ShardId, Verb};
use delayq::{Message, Topic};
use delayq_tests::deployment::Deployment;

/// The file, and the text in front of which an error ends the script.
const CUTS: [(&str, &str); 8] = [
    ("lib/flight", "m.flags = bit.bor(m.flags, BLOCKS)"),
    ("release", "end_lease(m, receipt)"),
    ("lib/turn", "return group\n"),
    ("lib/finish", "unblock(m, freed_group)"),
    ("lib/reschedule", "local word = move_to(m, due)"),
    ("lib/put/each", "call('SET', key, head"),
    ("lib/reserve/groups", "local list = base .. 'p:'"),
    ("lib/reserve/take", "redis.call('LTRIM', queue, seen"),
];

fn ids() -> Vec<Vec<u8>> {
    vec![in_g("a").into_bytes()]
}

fn again(item: Item, due: DueRule, keep: bool) -> Action {
    let again = Again { due, keep, ..Again::default() };
    Action::Put { topic: "t".into(), items: vec![Item { replace: true, again, ..item.in_group("g") }] }
}

fn purge(state: &'static str) -> Action {
    let last = Vec::new();
    Action::Purge(Purge { topic: "t".into(), state, from: 0, to: NOW + 100_000, last, limit: 10 })
}

async fn fail(lab: &mut Lab, receipt: Vec<u8>, delay: Option<u64>) {
    let action = match delay {
        Some(_) => Action::Release { all: vec![GiveBack { receipt, delay, keep: false }] },
        None => Action::Bury { receipts: vec![receipt] },
    };
    lab.words(action).await;
}

/// The ids and receipts of a reserve.
async fn reserved(lab: &mut Lab) -> (Vec<String>, Vec<Vec<u8>>) {
    let receipts = lab.reserve("t").await;
    (receipts.iter().map(|receipt| lossy(&receipt[2..3])).collect(), receipts)
}

async fn left(lab: &mut Lab) -> Vec<String> {
    let shard = lab.shard.snapshot().await;
    let indexes = shard.indexes.keys().filter(|name| ["k:", "n:", "f:", "x:"].contains(&&name[..2]));
    indexes.cloned().chain(shard.parked.keys().map(|(_, group)| format!("p:{group}"))).collect()
}

/// A topic with `a`, `b` and `c` of a group, and the receipt of `a`.
async fn scene(limit: &str) -> (Lab, Vec<u8>) {
    let mut lab = Lab::new().await;
    lab.words(Action::configure("t", "group_failed", "block")).await;
    lab.words(Action::configure("t", "group_in_flight", limit)).await;
    lab.put("t", &[item("a", NOW).in_group("g")]).await;
    let (_, mut receipts) = reserved(&mut lab).await;
    lab.put("t", &["b", "c"].map(|id| item(id, NOW).in_group("g"))).await;
    (lab, receipts.remove(0))
}

#[tokio::test]
async fn one_in_flight_and_blocking_failures_keep_a_group_in_order_across_retries() {
    let (mut lab, receipt) = scene("1").await;
    let mut order = Vec::new();
    fail(&mut lab, receipt, Some(1000)).await;
    lab.put("t", &[item("x", NOW), item("y", NOW).in_group("other")]).await;
    let (ids_of_others, receipts) = reserved(&mut lab).await;
    assert_eq!(ids_of_others, ["x", "y"], "other groups go on");
    lab.words(Action::Ack { receipts }).await;
    lab.at(1000);
    for (at, delay) in [(1000, Some(0)), (1001, Some(0)), (1002, None)] {
        lab.at(at);
        lab.pump().await;
        let (ids, mut receipts) = reserved(&mut lab).await;
        assert_eq!(ids, ["a"]);
        fail(&mut lab, receipts.remove(0), delay).await;
    }
    assert_eq!(reserved(&mut lab).await.0, [] as [&str; 0], "a dead letter blocks as well");
    lab.words(Action::Replay { topic: "t".into(), delay: 0, ids: ids() }).await;
    for _ in 0..3 {
        let (ids, receipts) = reserved(&mut lab).await;
        order.extend(ids);
        lab.words(Action::Ack { receipts }).await;
    }
    assert_eq!(order, ["a", "b", "c"]);
    assert_eq!(left(&mut lab).await, [] as [&str; 0]);
}

#[tokio::test]
async fn a_lease_that_runs_out_blocks_its_group() {
    let (mut lab, _) = scene("").await;
    lab.words(Action::configure("t", "backoff", "\u{1}\0\0\u{3}h")).await;
    lab.at(1000);
    lab.pump().await;
    assert_eq!(reserved(&mut lab).await.0, [] as [&str; 0]);
    lab.at(1872);
    lab.pump().await;
    assert_eq!(reserved(&mut lab).await.0, ["a"]);
}

#[tokio::test]
async fn whatever_ends_or_moves_the_failed_message_lets_its_group_go_on() {
    let put = |due| item("a", due);
    let change = |due: u64| (ids().remove(0), (NOW + due).to_string(), None);
    let ways: [(&str, Option<u64>, Action); 10] = [
        ("cancel", Some(5000), Action::Cancel { topic: "t".into(), ids: ids() }),
        (
            "cancel_group",
            Some(5000),
            Action::CancelGroup {
                group: "g".into(),
                topic: String::new(),
                behind: (0, Vec::new()),
                limit: 1,
            },
        ),
        ("purge of delayed", Some(5000), purge("delayed")),
        ("purge of dead", None, purge("dead")),
        ("replace of delayed", Some(5000), again(put(NOW + 9000), DueRule::New, false)),
        ("replace of dead", None, again(put(NOW + 9000), DueRule::New, false)),
        ("debounce", Some(5000), again(put(NOW + 9000), DueRule::Later, true)),
        ("reschedule", Some(5000), Action::Reschedule { topic: "t".into(), changes: vec![change(9000)] }),
        ("pass", Some(5000), Action::configure("t", "group_failed", "pass")),
        ("default", None, Action::configure("t", "group_failed", "")),
    ];
    for (way, delay, action) in ways {
        for limit in ["", "1"] {
            let (mut lab, receipt) = scene(limit).await;
            fail(&mut lab, receipt, delay).await;
            assert_eq!(reserved(&mut lab).await.0, [] as [&str; 0], "{way}");
            if way == "cancel_group" {
                // `b` and `c` come first.
                lab.put("t", &[item("d", NOW + 6000).in_group("g")]).await;
                let (group, topic) = ("g".into(), String::new());
                let behind = (NOW, b"1:c\x1fg".to_vec());
                lab.words(Action::CancelGroup { group, topic, behind, limit: 1 }).await;
            } else {
                lab.words(action.clone()).await;
            }
            let (ids, receipts) = reserved(&mut lab).await;
            assert_eq!(ids[0], "b", "{way}");
            lab.words(Action::Ack { receipts }).await;
            let (_, receipts) = reserved(&mut lab).await;
            if !receipts.is_empty() {
                lab.words(Action::Ack { receipts }).await;
            }
            let mut left = left(&mut lab).await;
            left.retain(|name| name != "x:1" || !matches!(way, "pass" | "default"));
            assert_eq!(left, [] as [&str; 0], "{way}");
        }
    }
}

#[tokio::test]
async fn finishing_by_id_and_expiry_let_the_group_go_on() {
    for way in ["finish", "expiry", "expiry at the reserve"] {
        let mut lab = Lab::new().await;
        lab.words(Action::configure("t", "group_failed", "block")).await;
        let fleeting = Item { expires: Some(NOW + 500), ..item("a", NOW).in_group("g") };
        lab.put("t", &[fleeting, item("z", NOW + 600).in_group("g")]).await;
        let (_, mut receipts) = reserved(&mut lab).await;
        fail(&mut lab, receipts.remove(0), Some(100)).await;
        lab.put("t", &[item("b", NOW).in_group("g")]).await;
        assert_eq!(reserved(&mut lab).await.0, [] as [&str; 0]);
        lab.at(100);
        lab.pump().await;
        match way {
            "finish" => {
                let call = [b"t".to_vec(), b"any".to_vec(), ids().remove(0)];
                lab.shard.call(Verb::Finish, &call).await.unwrap();
            }
            "expiry" => {
                lab.at(500);
                lab.pump().await;
            }
            _ => {
                lab.at(500);
                lab.shard.call(Verb::Reserve, &["1", "0", "", "t"]).await.unwrap();
            }
        }
        assert_eq!(reserved(&mut lab).await.0, ["b"], "{way}");
        assert_eq!(left(&mut lab).await, [] as [&str; 0], "{way}");
    }
}

#[tokio::test]
async fn promoting_or_shifting_a_failed_message_keeps_it_in_front_of_its_group() {
    let promote = Promote {
        topic: "t".into(),
        group: String::new(),
        from: 0,
        to: NOW + 9000,
        last: Vec::new(),
        limit: 10,
    };
    let shift = Action::ShiftGroup {
        group: "g".into(),
        topic: String::new(),
        token: "x".into(),
        by: -4999,
        limit: 10,
    };
    for action in [Action::Promote(promote), shift] {
        let (mut lab, receipt) = scene("1").await;
        fail(&mut lab, receipt, Some(5000)).await;
        assert_eq!(reserved(&mut lab).await.0, [] as [&str; 0]);
        lab.words(action).await;
        lab.at(1);
        lab.pump().await;
        let (ids, receipts) = reserved(&mut lab).await;
        assert_eq!(ids, ["a"]);
        lab.words(Action::Ack { receipts }).await;
        assert_eq!(reserved(&mut lab).await.0, ["b"]);
    }
}

#[tokio::test]
async fn a_failed_message_whose_content_is_edited_keeps_its_block() {
    let (mut lab, receipt) = scene("1").await;
    fail(&mut lab, receipt, Some(5000)).await;
    assert_eq!(reserved(&mut lab).await.0, [] as [&str; 0]);
    lab.words(again(Item { content: 1, ..item("a", NOW + 9000) }, DueRule::Content, false)).await;
    assert_eq!(reserved(&mut lab).await.0, [] as [&str; 0]);
    lab.at(5000);
    lab.pump().await;
    let (ids, receipts) = reserved(&mut lab).await;
    assert_eq!(ids, ["a"]);
    lab.words(Action::Ack { receipts }).await;
    assert_eq!(reserved(&mut lab).await.0, ["b"]);
}

#[tokio::test]
async fn a_failed_message_of_a_paused_group_comes_back_in_front_of_the_others() {
    let (mut lab, receipt) = scene("1").await;
    let pause = |pauses| Action::PauseGroup { topic: "t".into(), pauses, groups: vec!["g".into()] };
    lab.words(pause(true)).await;
    assert_eq!(reserved(&mut lab).await.0, [] as [&str; 0]);
    fail(&mut lab, receipt, Some(0)).await;
    assert_eq!(reserved(&mut lab).await.0, [] as [&str; 0]);
    lab.words(pause(false)).await;
    for id in ["a", "b", "c"] {
        let (ids, receipts) = reserved(&mut lab).await;
        assert_eq!(ids, [id]);
        lab.words(Action::Ack { receipts }).await;
    }
    assert_eq!(left(&mut lab).await, [] as [&str; 0]);
}

#[tokio::test]
async fn a_script_that_is_cut_off_around_a_failure_keeps_the_order_and_leaves_nothing_behind() {
    for (file, before) in CUTS {
        let cut = format!("error('cut off') {before}");
        for step in ["release", "cancel", "reschedule", "replace", "reserve"] {
            let (mut lab, receipt) = scene("1").await;
            lab.words(Action::configure("t", "backoff", "\u{1}\0\0\0\u{1}")).await;
            let mut broken =
                BareShard::uncreated(&lab.server, "p", scripts_with(&[(file, before, &cut)])).await;
            broken.clock_us = lab.shard.clock_us;
            let release = |receipt: Vec<u8>| Action::Release {
                all: vec![GiveBack { receipt, delay: Some(50), keep: false }],
            };
            let change = (ids().remove(0), NOW.to_string(), None);
            if step != "release" {
                lab.words(release(receipt.clone())).await;
            }
            let call = match step {
                "release" => release(receipt),
                "cancel" => Action::Cancel { topic: "t".into(), ids: ids() },
                "reschedule" => Action::Reschedule { topic: "t".into(), changes: vec![change] },
                "replace" => again(item("a", NOW), DueRule::New, false),
                _ => Action::Reserve(crate::action::Reserve::from("t", 100, Some(1000))),
            };
            let _refused = broken.call(call.verb(), &call.args()).await;
            let (mut order, mut now) = (Vec::new(), 0);
            while now < 100_000 && order.len() < 6 {
                now += 2000;
                lab.at(now);
                lab.pump().await;
                let (ids, receipts) = reserved(&mut lab).await;
                assert!(ids.len() < 2, "{before}, {step}: {ids:?} at the same time");
                order.extend(ids);
                if !receipts.is_empty() {
                    lab.words(Action::Ack { receipts }).await;
                }
            }
            order.retain(|id| id != "a");
            assert_eq!(order, ["b", "c"], "{before}, {step}");
            // A sweep removes leftover entries.
            let mut indexes = vec![b"x:1".to_vec()];
            indexes.extend(lab.shard.snapshot().await.indexes.keys().cloned().map(String::into_bytes));
            let found = lab.words(Action::AuditIndex { indexes }).await;
            let is_stale = |fault: &[String]| fault[1] == "stale_entry";
            assert!(found[4..].chunks(3).all(is_stale), "{before}, {step}: {found:?}");
        }
    }
}

#[tokio::test]
async fn messages_that_wait_for_no_failed_one_are_found_and_get_a_turn() {
    let (mut lab, receipt) = scene("").await;
    fail(&mut lab, receipt, None).await;
    assert_eq!(reserved(&mut lab).await.0, [] as [&str; 0]);
    let look = || Action::AuditIndex { indexes: vec![b"p:1:g".to_vec(), b"x:1".to_vec()] };
    assert_eq!(lab.words(look()).await[4..], [] as [&str; 0], "a dead letter blocks the group");
    lab.shard.command(&[b"SETRANGE", b"~m:1:a\x1fg", b"2", b"\0\x09"]).await;
    let found = lab.words(look()).await;
    assert_eq!(found[4..], ["p:1:g", "no_turn", "", "x:1", "stale_entry", "g\u{1f}a\u{1f}g"]);
    let findings: Vec<[Vec<u8>; 3]> = found[4..]
        .chunks(3)
        .map(|fault| [&fault[1], &fault[0], &fault[2]].map(|word| word.clone().into_bytes()))
        .collect();
    assert_eq!(lab.words(Action::Repair { findings: findings.clone() }).await, ["mended", "mended"]);
    assert_eq!(lab.words(Action::Repair { findings }).await, ["sound", "sound"]);
    assert_eq!(reserved(&mut lab).await.0, ["b", "c"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_see_which_message_blocks_its_group_and_which_wait_for_it() {
    let Deployment { server: _server, client, producer, admin } = Deployment::new(1).await;
    let topic = Topic::new("t").unwrap();
    let policy =
        Policy { group_in_flight: Some(1), group_failed: Some(GroupFailed::Block), ..Policy::default() };
    admin.topic(&topic).set_policy(&policy).await.unwrap();
    let message = |n: u8| Message::new(topic.clone(), vec![n]).group("g").unwrap();
    assert!(producer.put_many((0..5).map(message).collect()).await.iter().all(Result::is_ok));
    let holder = Holder::new(client);
    let request = || ReserveRequest { topics: vec![topic.clone()], most: 10, max_bytes: 0, lease: None };
    let mut reserved = holder.reserve(&[(ShardId::new(0), request())]).await;
    let receipt = reserved.remove(0).unwrap().messages.remove(0).receipt;
    assert!(holder.bury(&[(receipt, "broken".into())]).await.iter().all(Result::is_ok));
    let mut reserved = holder.reserve(&[(ShardId::new(0), request())]).await;
    assert!(reserved.remove(0).unwrap().messages.is_empty());
    let numbers = admin.topic(&topic).count().await.unwrap();
    assert_eq!((numbers.ready, numbers.dead, numbers.full_groups, numbers.blocking), (4, 1, 1, 1));
    let ready = admin.topic(&topic).list(ListState::Ready, TimeRange::ALL, 10).await.unwrap();
    let waits = ready.iter().filter_map(|listed| listed.envelope.as_ref().ok());
    assert_eq!(waits.filter(|envelope| envelope.held && envelope.blocked && !envelope.blocks).count(), 4);
    let dead =
        admin.topic(&topic).list(ListState::Dead { newest_first: false }, TimeRange::ALL, 10).await.unwrap();
    assert!(dead[0].envelope.as_ref().is_ok_and(|envelope| envelope.blocks && !envelope.held));
    assert!(admin.audit().run(|_| {}).await.unwrap().is_clean());
}
