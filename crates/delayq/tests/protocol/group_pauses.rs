//! Pauses of single groups: the order behind a pause, scripts that are cut off, growth, and what operators see.

use crate::action::{Action, Reserve};
use crate::bare_shard::{BareShard, NOW, scripts_with};
use crate::lab::{Lab, item};
use crate::snapshot::lossy;
use delayq::admin::{ListState, TimeRange};
use delayq::protocol::{Holder, ReserveRequest, ShardId};
use delayq::{Admin, Group, Message, ShardCount, Topic};
use delayq_tests::deployment::Deployment;

/// The file, and the text in front of which an error ends the script.
const CUTS: [(&str, &str); 7] = [
    ("pause_group", "changed = changed + redis.call('ZADD'"),
    ("pause_group", "changed = changed + redis.call('ZREM'"),
    ("pause_group", "if redis.call('EXISTS', paused)"),
    ("lib/reserve/take", "for _, one in ipairs(later) do"),
    ("lib/reserve/groups", "local list = base .. 'p:'"),
    ("lib/reserve/take", "redis.call('LTRIM', queue, seen"),
    ("lib/reserve/take", "for i = 1, #heads, 2 do call("),
];

fn pause(pauses: bool) -> Action {
    Action::PauseGroup { topic: "t".into(), pauses, groups: vec!["g".into()] }
}

/// Ids that a reserve hands out.
async fn reserved(lab: &mut Lab) -> Vec<String> {
    let receipts = lab.reserve("t").await;
    let ids = receipts.iter().map(|receipt| lossy(&receipt[2..3])).collect();
    if !receipts.is_empty() {
        lab.words(Action::Ack { receipts }).await;
    }
    ids
}

async fn left(lab: &mut Lab) -> Vec<String> {
    let shard = lab.shard.snapshot().await;
    let kinds = ["k:", "n:", "f:", "q:"];
    let indexes = shard.indexes.keys().filter(|name| kinds.iter().any(|kind| name.starts_with(kind)));
    let notes = shard.hashes["t:1"].keys().filter(|field| *field == "paused_groups");
    indexes.chain(notes).cloned().chain(shard.parked.keys().map(|(_, group)| format!("p:{group}"))).collect()
}

#[tokio::test]
async fn a_paused_group_waits_while_others_pass_it_and_comes_back_in_order() {
    for limit in ["", "1"] {
        let mut lab = Lab::new().await;
        lab.words(Action::configure("t", "group_in_flight", limit)).await;
        assert_eq!(lab.words(pause(true)).await, ["1"]);
        assert_eq!(lab.words(pause(true)).await, ["0"], "paused already");
        let in_g = ["a", "b", "c"].map(|id| item(id, NOW).in_group("g"));
        lab.put("t", &in_g).await;
        lab.put("t", &[item("x", NOW), item("y", NOW).in_group("other")]).await;
        assert_eq!(reserved(&mut lab).await, ["x", "y"]);
        lab.put("t", &[item("d", NOW).in_group("g"), item("z", NOW)]).await;
        assert_eq!(reserved(&mut lab).await, ["z"]);
        assert_eq!(lab.words(pause(false)).await, ["1"]);
        assert_eq!(lab.words(pause(false)).await, ["0"], "resumed already");
        let mut back = Vec::new();
        while back.len() < 4 {
            let some = reserved(&mut lab).await;
            assert!(!some.is_empty(), "{back:?} came back, and the others wait for ever");
            back.extend(some);
        }
        assert_eq!(back, ["a", "b", "c", "d"], "{limit}");
        assert_eq!(left(&mut lab).await, [] as [&str; 0], "{limit}");
    }
}

#[tokio::test]
async fn a_pause_ends_no_lease_and_the_end_of_a_lease_ends_no_pause() {
    let mut lab = Lab::new().await;
    lab.words(Action::configure("t", "group_in_flight", "1")).await;
    lab.put("t", &["a", "b"].map(|id| item(id, NOW).in_group("g"))).await;
    let receipts = lab.reserve("t").await;
    lab.words(pause(true)).await;
    assert_eq!(lab.words(Action::Ack { receipts }).await, ["delivered"]);
    assert_eq!(reserved(&mut lab).await, [] as [&str; 0]);
    let findings = lab.words(Action::AuditIndex { indexes: vec![b"p:1:g".to_vec(), b"q:1".to_vec()] }).await;
    assert_eq!(findings[4..], [] as [&str; 0], "a paused group's messages wait for the end of the pause");
    lab.words(pause(false)).await;
    assert_eq!(reserved(&mut lab).await, ["b"]);
}

#[tokio::test]
async fn a_script_that_is_cut_off_around_a_pause_leaves_no_message_behind_and_lets_none_through() {
    for (file, before) in CUTS {
        let cut = format!("error('cut off') {before}");
        for cuts_the_end in [false, true] {
            let mut lab = Lab::new().await;
            let mut broken =
                BareShard::uncreated(&lab.server, "p", scripts_with(&[(file, before, &cut)])).await;
            broken.clock_us = Some(NOW * 1000);
            lab.words(Action::configure("t", "lease_ms", "1000")).await;
            let call = match file {
                "pause_group" => pause(!cuts_the_end),
                _ => Action::Reserve(Reserve::from("t", 100, Some(1000))),
            };
            if cuts_the_end || file != "pause_group" {
                lab.words(pause(true)).await;
            }
            lab.put("t", &["a", "b", "c"].map(|id| item(id, NOW).in_group("g"))).await;
            if cuts_the_end {
                assert_eq!(reserved(&mut lab).await, [] as [&str; 0]);
                if file != "pause_group" {
                    lab.words(pause(false)).await;
                }
            }
            let _refused = broken.call(call.verb(), &call.args()).await;
            // A repeat completes the call that was cut off.
            lab.words(pause(true)).await;
            lab.at(2000);
            lab.pump().await;
            let meanwhile = reserved(&mut lab).await;
            assert_eq!(meanwhile, [] as [&str; 0], "{before}, {cuts_the_end}");
            lab.words(pause(false)).await;
            let mut back = Vec::new();
            for round in 2..6 {
                lab.at(round * 20_000);
                lab.pump().await;
                back.extend(reserved(&mut lab).await);
            }
            back.sort();
            assert_eq!(back, ["a", "b", "c"], "{before}, {cuts_the_end}");
            assert_eq!(left(&mut lab).await, [] as [&str; 0], "{before}, {cuts_the_end}");
        }
    }
}

#[tokio::test]
async fn what_is_cancelled_or_expires_during_a_pause_does_not_pile_up() {
    let mut lab = Lab::new().await;
    lab.words(pause(true)).await;
    let id = |n: u32| format!("{n}\u{1f}g").into_bytes();
    for n in 0..50 {
        lab.put("t", &[item(&n.to_string(), NOW).in_group("g")]).await;
        assert_eq!(reserved(&mut lab).await, [] as [&str; 0]);
    }
    for n in 0..50 {
        lab.words(Action::Cancel { topic: "t".into(), ids: vec![id(n)] }).await;
    }
    let shard = lab.shard.snapshot().await;
    assert!(shard.parked.is_empty() && shard.index("k:1").is_empty(), "{:?}", shard.parked);
    let mut late = item("late", NOW).in_group("g");
    late.expires = Some(NOW + 10);
    lab.put("t", &[late]).await;
    assert_eq!(reserved(&mut lab).await, [] as [&str; 0]);
    lab.at(20);
    lab.pump().await;
    assert!(lab.shard.snapshot().await.parked.is_empty());
    lab.words(pause(false)).await;
    assert_eq!(left(&mut lab).await, [] as [&str; 0]);
}

async fn count_reserved(client: &delayq::Client, shards: u16, topic: &Topic) -> usize {
    let request = || ReserveRequest { topics: vec![topic.clone()], most: 100, max_bytes: 0, lease: None };
    let each: Vec<_> = (0..shards).map(|shard| (ShardId::new(shard), request())).collect();
    let answers = Holder::new(client.clone()).reserve(&each).await;
    answers.into_iter().map(|answer| answer.unwrap().messages.len()).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_group_stays_paused_in_the_shards_of_a_growth() {
    let Deployment { server: _server, client, producer, admin } = Deployment::new(1).await;
    let topic = Topic::new("t").unwrap();
    let groups: Vec<Group> = (0..12).map(|n| Group::new(format!("g{n}")).unwrap()).collect();
    for group in &groups {
        admin.topic(&topic).pause_group(group).await.unwrap();
    }
    admin.topic(&topic).resume_group(&groups[11]).await.unwrap();
    let put = async || {
        let message = |group: &Group| Message::new(topic.clone(), "x").group(group.as_str()).unwrap();
        let puts = producer.put_many(groups.iter().map(message).collect()).await;
        assert!(puts.iter().all(Result::is_ok));
    };
    put().await;
    admin.shards().grow(ShardCount::new(4).unwrap(), |_| {}).await.unwrap();
    put().await;
    assert_eq!(count_reserved(&client, 4, &topic).await, 2, "those of the group that goes on");
    let count = admin.topic(&topic).count().await.unwrap();
    assert_eq!((count.paused_groups, count.ready, count.leased), (11, 22, 2));
    for group in &groups[..11] {
        admin.topic(&topic).resume_group(group).await.unwrap();
    }
    assert_eq!(count_reserved(&client, 4, &topic).await, 22);
}

async fn is_sound(admin: &Admin) -> bool {
    admin.audit().run(|_| {}).await.unwrap().is_clean()
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_see_which_groups_are_paused_and_what_they_hold() {
    let Deployment { server: _server, client, producer, admin } = Deployment::new(1).await;
    let (topic, group) = (Topic::new("t").unwrap(), Group::new("g").unwrap());
    admin.topic(&topic).pause_group(&group).await.unwrap();
    let message = |n: u8| Message::new(topic.clone(), vec![n]).group("g").unwrap();
    assert!(producer.put_many((0..5).map(message).collect()).await.iter().all(Result::is_ok));
    for round in 0..2 {
        let ready = admin.topic(&topic).list(ListState::Ready, TimeRange::ALL, 10).await.unwrap();
        let held = ready.iter().filter_map(|listed| listed.envelope.as_ref().ok());
        assert_eq!(held.filter(|envelope| envelope.held && envelope.paused).count(), 5, "{round}");
        assert!(is_sound(&admin).await);
        assert_eq!(count_reserved(&client, 1, &topic).await, 0);
    }
    let numbers = admin.topic(&topic).count().await.unwrap();
    assert_eq!((numbers.ready, numbers.paused_groups, numbers.balances()), (5, 1, true));
    assert_eq!(admin.topic(&topic).paused_groups().await.unwrap()[0].group, group);
}
