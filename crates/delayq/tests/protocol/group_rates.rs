//! Rates of groups: messages that wait for a token while others pass, the time to come back, and changes of the rate.

use crate::action::{Action, Reserve};
use crate::bare_shard::{BareShard, NOW, scripts_with};
use crate::lab::{Lab, item};
use crate::snapshot::lossy;
use delayq::admin::{GroupRate, ListState, Policy, RateUnit, TimeRange};
use delayq::protocol::{Holder, ReserveRequest, ShardId};
use delayq::{Message, Topic};
use delayq_tests::deadline::{LONG, within};
use delayq_tests::deployment::Deployment;
use std::time::{Duration, Instant};

/// Where each script is cut off: the file, and the text in front of which an error ends the script.
const CUTS: [(&str, &str); 7] = [
    ("lib/reserve/take", "    charge(no)"),
    ("lib/reserve/rates", "if at and at > now_us then"),
    ("lib/reserve/rates", "give_turn(no, group)"),
    ("lib/reserve/rates", "redis.call('ZREM', waiting, group)"),
    ("lib/reserve/rates", "if full[1] then"),
    ("lib/reserve/take", "redis.call('LTRIM', queue, seen"),
    ("lib/reserve/groups", "local list = base .. 'p:'"),
];

async fn rate(lab: &mut Lab, rate: &str) {
    lab.words(Action::configure("t", "group_rate", rate)).await;
}

/// The ms until the next call, and the ids that a reserve hands out.
async fn reserved(lab: &mut Lab) -> (String, Vec<String>) {
    let answer = lab.run(Action::Reserve(Reserve::from("t", 100, Some(600_000)))).await.unwrap();
    let receipts = answer.get(9..).unwrap_or_default().chunks(3).map(|one| &one[1]);
    let id = |receipt: &Vec<u8>| receipt[2..receipt.len() - 4].split(|&byte| byte == 0x1f).next().map(lossy);
    (lossy(&answer[1]), receipts.filter_map(id).collect())
}

async fn left(lab: &mut Lab) -> Vec<String> {
    let shard = lab.shard.snapshot().await;
    let kinds = ["k:", "n:", "v:", "y:"];
    let indexes = shard.indexes.keys().filter(|name| kinds.iter().any(|kind| name.starts_with(kind)));
    indexes.cloned().chain(shard.parked.keys().map(|(_, group)| format!("p:{group}"))).collect()
}

#[tokio::test]
async fn a_group_gets_what_its_rate_says_while_the_others_pass() {
    let mut lab = Lab::new().await;
    rate(&mut lab, "5/s").await;
    let ids = ["a0", "a1", "a2", "a3"].map(|id| item(id, NOW).in_group("a"));
    lab.put("t", &ids).await;
    lab.put("t", &[item("b0", NOW).in_group("b"), item("alone0", NOW), item("alone1", NOW)]).await;
    assert_eq!(
        reserved(&mut lab).await,
        ("200".into(), ["a0", "b0", "alone0", "alone1"].map(String::from).into())
    );
    for (at, wait, ids) in [
        (1, "199", vec![]),
        (199, "1", vec![]),
        (200, "200", vec!["a1"]),
        (390, "10", vec![]),
        (650, "200", vec!["a2"]),
        // The clock is set back: no token takes longer than 200 ms.
        (100, "200", vec![]),
        (300, "", vec!["a3"]),
    ] {
        lab.at(at);
        let ids: Vec<String> = ids.into_iter().map(String::from).collect();
        assert_eq!(reserved(&mut lab).await, (wait.to_owned(), ids), "{at}");
    }
    lab.at(2000);
    assert_eq!(reserved(&mut lab).await.1, [] as [&str; 0]);
    assert_eq!(left(&mut lab).await, [] as [&str; 0], "full buckets are forgotten");
}

#[tokio::test]
async fn a_fast_group_has_a_burst_of_a_tenth_of_a_second_and_a_slow_one_of_one_message() {
    for (group_rate, first, a_second) in
        [("100/s", 10, 100), ("6000/m", 10, 100), ("60/m", 1, 1), ("3600/h", 1, 1)]
    {
        let mut lab = Lab::new().await;
        rate(&mut lab, group_rate).await;
        let ids: Vec<_> = (0..300).map(|n| item(&format!("{n:03}"), NOW).in_group("g")).collect();
        lab.put("t", &ids).await;
        assert_eq!(reserved(&mut lab).await.1.len(), first, "{group_rate}");
        let mut many = 0;
        for ms in 1..=1000 {
            lab.at(ms);
            many += reserved(&mut lab).await.1.len();
        }
        assert_eq!(many, a_second, "{group_rate}");
    }
}

#[tokio::test]
async fn a_change_of_the_rate_leaves_nothing_behind() {
    let mut lab = Lab::new().await;
    for end in ["0", "", "1000/s"] {
        rate(&mut lab, "1/h").await;
        let ids = ["a", "b", "c"].map(|id| item(&format!("{id}{end}"), NOW).in_group("g"));
        lab.put("t", &ids).await;
        let first = reserved(&mut lab).await.1.len();
        rate(&mut lab, end).await;
        lab.at(100);
        assert_eq!(first + reserved(&mut lab).await.1.len(), 3, "{end}");
        rate(&mut lab, "").await;
        reserved(&mut lab).await;
        assert_eq!(left(&mut lab).await, [] as [&str; 0], "{end}");
        lab.at(0);
    }
}

#[tokio::test]
async fn a_script_that_is_cut_off_around_a_token_leaves_no_message_behind() {
    for (file, before) in CUTS {
        let cut = format!("error('cut off') {before}");
        for at in [0, 1000] {
            let mut lab = Lab::new().await;
            let mut broken =
                BareShard::uncreated(&lab.server, "p", scripts_with(&[(file, before, &cut)])).await;
            rate(&mut lab, "2/s").await;
            let ids = ["a", "b", "c"];
            lab.put("t", &ids.map(|id| item(id, NOW).in_group("g"))).await;
            if at > 0 {
                reserved(&mut lab).await;
            }
            broken.clock_us = Some((NOW + at) * 1000);
            let reserve = Action::Reserve(Reserve::from("t", 100, Some(1000)));
            let _refused = broken.call(reserve.verb(), &reserve.args()).await;
            let mut back = Vec::new();
            for round in 1..8 {
                lab.at(round * 20_000);
                lab.pump().await;
                back.extend(reserved(&mut lab).await.1);
            }
            back.sort();
            back.dedup();
            assert_eq!(back, ids[usize::from(at > 0)..], "{before}, {at}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_see_what_waits_for_a_token_and_a_worker_that_comes_back_as_told_gets_it_in_time() {
    let Deployment { server: _server, client, producer, admin } = Deployment::new(1).await;
    let topic = Topic::new("t").unwrap();
    let group_rate = GroupRate::new(10, RateUnit::Second);
    admin.topic(&topic).set_policy(&Policy { group_rate, ..Policy::default() }).await.unwrap();
    let message = |n: u8| Message::new(topic.clone(), vec![n]).group("g").unwrap();
    assert!(producer.put_many((0..5).map(message).collect()).await.iter().all(Result::is_ok));
    let holder = Holder::new(client);
    let request = || ReserveRequest { topics: vec![topic.clone()], most: 10, max_bytes: 0, lease: None };
    let began = Instant::now();
    let first = holder.reserve(&[(ShardId::new(0), request())]).await.remove(0).unwrap();
    assert_eq!(first.messages.len(), 1);
    let ready = admin.topic(&topic).list(ListState::Ready, TimeRange::ALL, 10).await.unwrap();
    assert_eq!(ready.iter().filter(|listed| listed.envelope.as_ref().is_ok_and(|one| one.held)).count(), 4);
    assert!(admin.audit().run(|_| {}).await.unwrap().is_clean());
    let mut many = 1;
    within("every message is handed out", LONG, async {
        while many < 5 {
            let answer = holder.reserve(&[(ShardId::new(0), request())]).await.remove(0).unwrap();
            many += answer.messages.len();
            assert!(many < 5 || began.elapsed() >= Duration::from_millis(395), "five messages at 10/s");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    let numbers = admin.topic(&topic).count().await.unwrap();
    assert_eq!((numbers.ready, numbers.leased, numbers.balances()), (0, 5, true));
}
