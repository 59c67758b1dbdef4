//! Limits of groups: workers that die, scripts that are cut off, sweeps, and what operators see.

use crate::action::{Action, GiveBack, Reserve};
use crate::bare_shard::{BareShard, NOW, scripts_with};
use crate::lab::{Lab, item};
use crate::snapshot::{Snapshot, lossy};
use delayq::admin::{ListState, Policy, TimeRange};
use delayq::protocol::{Holder, ReserveRequest, Scripts, ShardId};
use delayq::{Message, Topic};
use delayq_tests::deadline::{LONG, within};
use delayq_tests::deployment::Deployment;
use delayq_tests::redis_server::{RedisServer, SharedRedis};
use fastrand::Rng;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinSet;

/// A lease that is shorter than some handlers take.
const LEASE_MS: u64 = 60;
const GROUPS: u64 = 5;
const MESSAGES_A_GROUP: u64 = 30;
/// One try after 1 ms.
const AT_ONCE: &[u8] = &[1, 0, 0, 0, 1];

/// The last lease of each group, by Redis's clock.
#[derive(Default)]
struct Leases(BTreeMap<String, Lease>);

struct Lease {
    given: u64,
    until: u64,
    is_settled: bool,
}

struct Worker {
    shard: BareShard,
    leases: Arc<Mutex<Leases>>,
    acked: Arc<Mutex<u64>>,
    rng: Rng,
}

fn group_of(receipt: &[u8]) -> String {
    let at = receipt.iter().position(|&byte| byte == 0x1F).expect("an own id in a group");
    lossy(&receipt[at + 1..receipt.len() - 4])
}

fn left(shard: &Snapshot) -> Vec<String> {
    let indexes =
        shard.indexes.iter().filter(|(name, _)| ["k:", "n:", "f:"].iter().any(|kind| name.starts_with(kind)));
    indexes
        .map(|(name, _)| name.clone())
        .chain(shard.parked.keys().map(|(_, group)| format!("p:{group}")))
        .collect()
}

// === impl Leases ===

impl Leases {
    fn note(&mut self, group: &str, given: u64, until: u64) {
        let new = Lease { given, until: until * 1000, is_settled: false };
        let old = self.0.entry(group.to_owned()).or_insert(Lease { given: 0, until: 0, is_settled: true });
        // The answer of an earlier lease may be read later.
        if given < old.given {
            return;
        }
        let is_over = old.is_settled || old.until <= given;
        assert!(
            is_over,
            "a second message of {group} was leased at {given}; the first is held until {}",
            old.until
        );
        *old = new;
    }

    fn settle(&mut self, group: &str) {
        self.0.get_mut(group).expect("it was leased").is_settled = true;
    }
}

// === impl Worker ===

impl Worker {
    async fn work(mut self) {
        while *self.acked.lock().unwrap() < GROUPS * MESSAGES_A_GROUP {
            let most = self.rng.u64(1..4);
            let reserve = Action::Reserve(Reserve::from("t", most, Some(LEASE_MS)));
            let answer = self.shard.call(reserve.verb(), &reserve.args()).await.unwrap();
            let number = |at: usize| lossy(&answer[at]).parse::<u64>().unwrap();
            let receipts: Vec<_> = answer[9..].chunks(3).map(|one| one[1].clone()).collect();
            for receipt in &receipts {
                self.leases.lock().unwrap().note(&group_of(receipt), number(0), number(7));
            }
            for receipt in receipts {
                self.handle(receipt).await;
            }
            tokio::task::yield_now().await;
        }
    }

    /// Some workers die: their leases run out.
    async fn handle(&mut self, receipt: Vec<u8>) {
        let group = group_of(&receipt);
        match self.rng.u8(..20) {
            0..2 => {}
            2..5 => {
                self.leases.lock().unwrap().settle(&group);
                let all = vec![GiveBack { receipt, delay: Some(0), keep: true }];
                let release = Action::Release { all };
                self.shard.call(release.verb(), &release.args()).await.unwrap();
            }
            _ => {
                self.leases.lock().unwrap().settle(&group);
                let ack = Action::Ack { receipts: vec![receipt] };
                let word = self.shard.call(ack.verb(), &ack.args()).await.unwrap();
                *self.acked.lock().unwrap() += u64::from(word[0] == b"delivered");
            }
        }
    }
}

async fn connected(server: &SharedRedis, scripts: &Arc<Scripts>) -> BareShard {
    BareShard::uncreated(server, "s", Arc::clone(scripts)).await
}

async fn run(shard: &mut BareShard, action: Action) -> Vec<String> {
    shard.call(action.verb(), &action.args()).await.unwrap().iter().map(|word| lossy(word)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_two_messages_of_a_group_are_leased_at_a_time_while_workers_die() {
    let (server, scripts) = (RedisServer::start().await, Arc::new(Scripts::published()));
    let mut shard = BareShard::create(&server, "s", Arc::clone(&scripts)).await;
    let settings = vec![
        ("group_in_flight", b"1".to_vec()),
        ("max_attempts", b"0".to_vec()),
        ("backoff", AT_ONCE.to_vec()),
    ];
    run(&mut shard, Action::Configure { topic: "t".into(), settings }).await;
    for n in 0..MESSAGES_A_GROUP {
        let items =
            (0..GROUPS).map(|group| item(&format!("{n:03}"), 1).in_group(&format!("g{group}"))).collect();
        run(&mut shard, Action::Put { topic: "t".into(), items }).await;
    }
    let (leases, acked): (Arc<Mutex<Leases>>, Arc<Mutex<u64>>) = Default::default();
    let mut workers = JoinSet::new();
    for seed in 0..6 {
        let shard = connected(&server, &scripts).await;
        let (leases, acked, rng) = (Arc::clone(&leases), Arc::clone(&acked), Rng::with_seed(seed));
        workers.spawn(Worker { shard, leases, acked, rng }.work());
    }
    let mut pumping = connected(&server, &scripts).await;
    let pump = tokio::spawn(async move {
        loop {
            run(&mut pumping, Action::Pump { epoch: Some(0), limit: 500 }).await;
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    within("every message is acked", LONG, async {
        while let Some(worker) = workers.join_next().await {
            worker.unwrap();
        }
    })
    .await;
    pump.abort();
    assert_eq!(left(&*shard.snapshot().await), Vec::<String>::new());
}

/// Where each script is cut off: the file, and the text in front of which an error ends the script.
const CUTS: [(&str, &str); 11] = [
    ("lib/reserve/take", "for i = 1, #flights, 2 do"),
    ("lib/reserve/take", "for i = 1, #heads, 2 do call("),
    ("lib/reserve/take", "for _, one in ipairs(later) do"),
    ("lib/reserve/groups", "local list = base .. 'p:'"),
    ("lib/reserve/take", "redis.call('LTRIM', queue, seen"),
    ("lib/ack/write", "if marked[1] then"),
    ("lib/ack/write", "call('ZREM', leases"),
    ("lib/ack/write", "for i = 1, landed and"),
    ("release", "end_lease(m, receipt)"),
    ("release", "land(m, receipt)"),
    ("bury", "end_lease(m, receipt)"),
];

#[tokio::test]
async fn a_script_that_is_cut_off_anywhere_leaves_no_message_of_a_group_behind_and_lets_none_overtake() {
    for (file, before) in CUTS {
        let cut = format!("error('cut off') {before}");
        let mut lab = Lab::new().await;
        let mut broken = BareShard::uncreated(&lab.server, "p", scripts_with(&[(file, before, &cut)])).await;
        broken.clock_us = Some(NOW * 1000);
        lab.words(Action::configure("t", "group_in_flight", "1")).await;
        let ids = ["a", "b", "c", "d"];
        lab.put("t", &ids.map(|id| item(id, NOW).in_group("g"))).await;
        let reserve = Action::Reserve(Reserve::from("t", 100, Some(1000)));
        let call = if file.starts_with("lib/reserve") {
            reserve
        } else {
            let receipts = lab.reserve("t").await;
            match file {
                "bury" => Action::Bury { receipts },
                "release" => {
                    let one = |receipt| GiveBack { receipt, delay: Some(0), keep: false };
                    Action::Release { all: receipts.into_iter().map(one).collect() }
                }
                _ => Action::Ack { receipts },
            }
        };
        let _refused = broken.call(call.verb(), &call.args()).await;
        let mut delivered = Vec::new();
        for round in 1..12 {
            lab.at(round * 2000);
            lab.pump().await;
            let receipts = lab.reserve("t").await;
            assert!(receipts.len() <= 1, "{before}: {receipts:?}");
            delivered.extend(receipts.iter().map(|receipt| lossy(&receipt[2..3])));
            if !receipts.is_empty() {
                assert_eq!(lab.words(Action::Ack { receipts }).await, ["delivered"], "{before}");
            }
        }
        // The first may return after its back-off, or be delivered by the script that was cut off.
        delivered.retain(|id: &String| id != "a");
        assert_eq!(delivered, ids[1..], "{before}");
        lab.put("t", &[item("e", NOW).in_group("g"), item("f", NOW).in_group("g")]).await;
        for _ in 0..2 {
            let receipts = lab.reserve("t").await;
            assert_eq!(receipts.len(), 1, "{before}");
            lab.words(Action::Ack { receipts }).await;
        }
        assert_eq!(left(&*lab.shard.snapshot().await), Vec::<String>::new(), "{before}");
    }
}

#[tokio::test]
async fn parked_messages_without_a_turn_are_found_and_get_one() {
    let mut lab = Lab::new().await;
    lab.words(Action::configure("t", "group_in_flight", "1")).await;
    lab.put("t", &["a", "b"].map(|id| item(id, NOW).in_group("g"))).await;
    let receipts = lab.reserve("t").await;
    let look = || Action::AuditIndex { indexes: vec![b"p:1:g".to_vec()] };
    assert_eq!(lab.words(look()).await[4..], [] as [&str; 0], "a message in flight is followed by a turn");
    lab.words(Action::Ack { receipts }).await;
    assert_eq!(lab.words(look()).await[4..], [] as [&str; 0], "the group has its turn");
    for lost in ["~n:1", "~k:1"] {
        lab.shard.command(&[b"DEL", lost.as_bytes()]).await;
        assert_eq!(lab.words(look()).await[4..], ["p:1:g", "no_turn", ""], "{lost}");
    }
    let findings = vec![[b"no_turn".to_vec(), b"p:1:g".to_vec(), Vec::new()]];
    assert_eq!(lab.words(Action::Repair { findings: findings.clone() }).await, ["mended"]);
    assert_eq!(lab.words(Action::Repair { findings }).await, ["sound"]);
    assert_eq!(lab.reserve("t").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_see_what_its_group_holds_and_an_audit_finds_it_in_its_place() {
    let Deployment { server: _server, client, producer, admin } = Deployment::new(1).await;
    let topic = Topic::new("t").unwrap();
    let policy = Policy { group_in_flight: Some(1), ..Policy::default() };
    admin.topic(&topic).set_policy(&policy).await.unwrap();
    let message = |n: u8| Message::new(topic.clone(), vec![n]).group("g").unwrap();
    assert!(producer.put_many((0..5).map(message).collect()).await.iter().all(Result::is_ok));
    let holder = Holder::new(client);
    let request = ReserveRequest { topics: vec![topic.clone()], most: 10, max_bytes: 0, lease: None };
    let mut reserved = holder.reserve(&[(ShardId::new(0), request)]).await;
    let messages = reserved.remove(0).unwrap().messages;
    assert_eq!(messages.len(), 1, "one message of the group at a time");
    let numbers = admin.topic(&topic).count().await.unwrap();
    assert_eq!((numbers.ready, numbers.leased, numbers.full_groups, numbers.balances()), (4, 1, 1, true));
    let ready = admin.topic(&topic).list(ListState::Ready, TimeRange::ALL, 10).await.unwrap();
    assert_eq!(ready.len(), 4);
    assert!(ready.iter().all(|listed| listed.envelope.as_ref().is_ok_and(|envelope| envelope.held)));
    assert!(admin.audit().run(|_| {}).await.unwrap().is_clean());
    assert!(holder.ack(&[messages[0].receipt.clone()]).await.iter().all(Result::is_ok));
    assert!(admin.audit().run(|_| {}).await.unwrap().is_clean());
}

#[tokio::test]
async fn a_message_whose_group_cannot_be_read_stops_no_other() {
    let mut lab = Lab::new().await;
    lab.words(Action::configure("t", "group_in_flight", "1")).await;
    lab.put("t", &[item("a", NOW), item("b", NOW).in_group("g")]).await;
    // The flag of a group, and a length that ends beyond the envelope.
    lab.shard.command(&[b"SETRANGE", b"~m:1:a", b"2", b"\0\x08"]).await;
    lab.shard.command(&[b"SETRANGE", b"~m:1:a", b"32", b"\xff"]).await;
    assert_eq!(lab.reserve("t").await.len(), 2);
}
