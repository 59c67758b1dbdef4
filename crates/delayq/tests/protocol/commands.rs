//! The commands that each script runs, reported by Redis while random runs cover every path.

use crate::action::{Action, Item};
use crate::bare_shard::{BareShard, NOW, scripts_with};
use crate::random_run::{Seeds, Weather, run_seeds};
use delayq::protocol::{Holder, Release, ReserveRequest, Scripts, ShardId, Verb};
use delayq::{Due, Message, MessageId, Reschedule, Target, Topic};
use delayq_tests::deployment::Deployment;
use delayq_tests::redis_monitor::{RedisMonitor, Seen};
use delayq_tests::redis_server::RedisServer;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

const SEEDS: Seeds = Seeds { weather: Weather::Fair, first: 0, count: 150 };

/// Searches, and commands of O(n) in the size of a shard.
const WALKS: [&str; 16] = [
    "keys",
    "scan",
    "sscan",
    "zscan",
    "sort",
    "sort_ro",
    "smembers",
    "hkeys",
    "hvals",
    "lrem",
    "lindex",
    "linsert",
    "lpos",
    "randomkey",
    "dbsize",
    "zrangebylex",
];

/// Commands that set a time to live, which a clock step would cut short.
const MORTAL: [&str; 9] =
    ["expire", "pexpire", "expireat", "pexpireat", "setex", "psetex", "getex", "flushall", "flushdb"];

fn by_verb(seen: Vec<Seen>, scripts: &Scripts) -> BTreeMap<&'static str, Vec<Seen>> {
    let verbs: HashMap<&str, Verb> =
        Verb::ALL.iter().map(|&verb| (scripts.get(verb).sha.as_str(), verb)).collect();
    let (mut ran, mut caller): (BTreeMap<_, Vec<Seen>>, Option<Verb>) = (BTreeMap::new(), None);
    for command in seen {
        if !command.in_script {
            let sha = command.text(0).filter(|_| command.name == "evalsha");
            caller = sha.and_then(|sha| verbs.get(sha).copied());
            continue;
        }
        let is_the_tests =
            command.text(0).is_some_and(|key| key.ends_with(":clock") || key.ends_with(":said"));
        if let Some(verb) = caller.filter(|_| !is_the_tests) {
            ran.entry(verb.name()).or_default().push(command);
        }
    }
    ran
}

fn objection(command: &Seen) -> Option<&'static str> {
    let name = command.name.as_str();
    let is = |place: usize, text: &str| command.args.get(place).is_some_and(|arg| arg == text.as_bytes());
    let key = command.text(0).unwrap_or_default();
    match name {
        _ if WALKS.contains(&name) => Some("it walks over the whole queue"),
        _ if MORTAL.contains(&name) => Some("nothing of a shard dies by itself"),
        "hscan" if !command.args.iter().any(|arg| arg == b"COUNT") => Some("of a page alone"),
        "set" if command.args[2..].iter().any(|arg| arg != b"NX") => Some("no option but NX"),
        "lrange" | "zrange" if is(1, "0") && is(2, "-1") => Some("all of it"),
        "hgetall" if !key.contains("}:t:") => Some("of a topic's policy alone"),
        _ => None,
    }
}

/// The commands that `probe` tries in order to find a missing permission before anything is served.
fn probed() -> BTreeSet<String> {
    let tried = Verb::Probe.file().split("try('").skip(1);
    tried.map(|rest| rest.split('\'').next().unwrap_or_default().to_lowercase()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_script_runs_a_command_that_walks_the_queue_or_sets_a_time_to_live_or_is_not_probed() {
    let server = RedisServer::private().await;
    let scripts = scripts_with(&[]);
    let monitor = RedisMonitor::start(&server).await;
    run_seeds(&server, &scripts, SEEDS).await.unwrap();
    run_seeds(&server, &scripts, Seeds { weather: Weather::Grouped, ..SEEDS }).await.unwrap();
    let ran = by_verb(monitor.seen(&server).await, &scripts);
    // Verbs that create or move a deployment are checked by name. A random run has no recorded writes and no gateway.
    let apart = [
        Verb::Init,
        Verb::Grow,
        Verb::Layout,
        Verb::Identify,
        Verb::Probe,
        Verb::Move,
        Verb::Discard,
        Verb::Settled,
        Verb::Finish,
        Verb::Meter,
        Verb::Operate,
        Verb::Swap,
    ]
    .map(Verb::name);
    let is_missing = |name: &&str| !ran.contains_key(name) && !apart.contains(name);
    let missing: Vec<_> = Verb::ALL.iter().map(|verb| verb.name()).filter(is_missing).collect();
    assert!(missing.is_empty(), "never called: {missing:?}");
    let probed = probed();
    for (verb, commands) in &ran {
        for command in commands {
            if let Some(why) = objection(command) {
                panic!("{verb} ran {command:?}: {why}");
            }
        }
        let names: BTreeSet<&str> = commands.iter().map(|command| command.name.as_str()).collect();
        println!("{verb}: {}", names.iter().copied().collect::<Vec<_>>().join(" "));
        let unknown: Vec<_> = names.into_iter().filter(|name| !probed.contains(*name)).collect();
        assert!(unknown.is_empty(), "{verb} ran what probe does not try: {unknown:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pump_reads_no_envelope_of_what_becomes_ready() {
    let server = RedisServer::private().await;
    let scripts = Arc::new(Scripts::published());
    let mut shard = BareShard::create(&server, "c", scripts_with(&[])).await;
    shard.clock_us = Some(NOW * 1000);
    let items = (0..40_u8).map(|n| Item::new(&[b'a', n + 32], NOW + 10 + u64::from(n))).collect();
    let put = Action::Put { topic: "t".into(), items };
    shard.call(put.verb(), &put.args()).await.unwrap();
    // From here on the server's own clock, which is past all of these times.
    let mut shard = BareShard::uncreated(&server, "c", Arc::clone(&scripts)).await;
    shard.call(Verb::Overview, &["0"]).await.unwrap();
    let monitor = RedisMonitor::start(&server).await;
    let pump = Action::Pump { epoch: Some(0), limit: 500 };
    let report = shard.call(Verb::Pump, &pump.args()).await.unwrap();
    assert_eq!(report[3], b"40");
    let ran = by_verb(monitor.seen(&server).await, &scripts);
    let names: BTreeSet<&str> = ran["pump"].iter().map(|command| command.name.as_str()).collect();
    for reads in ["get", "mget", "getrange", "strlen"] {
        assert!(!names.contains(reads), "{names:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_verb_reads_a_whole_large_body_for_its_head() {
    let server = RedisServer::private().await;
    let Deployment { client, producer, admin, .. } = Deployment::on(&*server, 1).await;
    let (topic, holder) = (Topic::new("t").unwrap(), Holder::new(client));
    let message = |n: u8| Message::new(topic.clone(), vec![n; 200_000]).id(format!("m-{n}")).unwrap();
    let due = |n: u8| if n < 3 { message(n) } else { message(n).after(Duration::from_secs(3600)) };
    assert!(producer.put_many((0..5).map(due).collect()).await.iter().all(Result::is_ok));
    let request = ReserveRequest { topics: vec![topic.clone()], most: 3, max_bytes: 0, lease: None };
    let reserved = holder.reserve(&[(ShardId::new(0), request)]).await.remove(0).unwrap().messages;
    let receipts: Vec<_> = reserved.into_iter().map(|message| message.receipt).collect();
    let target = |n: u8| Target::from(MessageId::own(format!("m-{n}")).unwrap());
    let monitor = RedisMonitor::start(&server).await;

    assert!(holder.extend(&receipts, None).await.iter().all(Result::is_ok));
    let release =
        Release { receipt: receipts[1].clone(), delay: None, keep_attempt: true, reason: String::new() };
    assert!(holder.release(&[release]).await.iter().all(Result::is_ok));
    assert!(holder.bury(&[(receipts[2].clone(), "why".to_owned())]).await.iter().all(Result::is_ok));
    assert!(holder.ack(&receipts[..1]).await.iter().all(Result::is_ok));
    let later = Reschedule::To(Due::After(Duration::from_secs(7200)));
    producer.reschedule(&topic, &target(3), later).await.unwrap();
    producer.cancel(&topic, &target(4)).await.unwrap();
    assert!(admin.audit().run(|_| {}).await.unwrap().is_clean());

    let ran = by_verb(monitor.seen(&server).await, &Scripts::published());
    for verb in ["extend", "release", "bury", "ack", "reschedule", "cancel", "audit"] {
        let bodies = |command: &&Seen| ["get", "mget"].contains(&command.name.as_str());
        assert_eq!(ran[verb].iter().find(bodies), None, "{verb}");
    }
}
