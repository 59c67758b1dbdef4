//! The whole of delayq over Sentinel: timer, forwarder, producer and worker under load while the master changes.

use delayq::{
    Admin, Client, Consumer, ConsumerOptions, Message, Producer, ProducerOptions, Settings, ShardCount,
    Topic, UnixMillis,
};
use delayq_tests::binary::Binary;
use delayq_tests::deadline::{LONG, wait_until, within};
use delayq_tests::folder::Folder;
use delayq_tests::history::{Answer, Event, History, sha256_hex};
use delayq_tests::invariants::{Permit, check};
use delayq_tests::process::Process;
use delayq_tests::sentinel_group::{SERVICE, SentinelGroup};
use delayq_tests::stall::Stall;
use delayq_tests::timing::{Timing, conclusive};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

const SHARDS: u16 = 2;
/// How long after a new master is known a message is put, moved and delivered at the latest.
const BOUND: Duration = Duration::from_secs(3);
/// For how long before a fault an answered write may be missing from the replica that takes over.
const UNREPLICATED: Duration = Duration::from_secs(2);

/// A deployment over sentinels, and the services that work on it.
struct Scene {
    group: SentinelGroup,
    folder: Folder,
    configuration: PathBuf,
    client: Client,
    _services: Vec<Process>,
}

/// Puts for a worker and for a forwarder, one after another, and what was answered when.
struct Load {
    stop: Arc<AtomicBool>,
    puts: JoinHandle<Vec<(String, u64, Answer, Instant)>>,
}

// === impl Scene ===

impl Scene {
    async fn start() -> Self {
        let (group, folder) = (SentinelGroup::start().await, Folder::new("sentinel"));
        let configuration = configuration(&folder, &group);
        let init = delayq(&configuration, &["init"]).run(b"", LONG).await;
        assert_eq!(init.code, Some(0), "{init:?}");
        let start = |role: &str| Binary::new(&format!("delayq-{role}")).arg(&configuration).start();
        let services = vec![start("timer"), start("forwarder")];
        let settings = Settings::new(group.url()).shards(ShardCount::new(SHARDS).unwrap());
        Self { client: Client::new(settings), group, folder, configuration, _services: services }
    }

    /// What the forwarder has delivered.
    fn forwarded(&self) -> Vec<Event> {
        let text = std::fs::read_to_string(self.folder.join("out").join("out.ndjson")).unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let event = |line: &str| {
            let line: Value = serde_json::from_str(line).unwrap();
            Event::Delivery {
                destination: "out".to_owned(),
                id: line["id"].as_str().unwrap().to_owned(),
                sha256: sha256_hex(line["payload"].as_str().unwrap().as_bytes()),
                delivery: u32::try_from(line["delivery"].as_u64().unwrap()).unwrap(),
                ready_ms: line["ready"].as_u64().unwrap(),
            }
        };
        whole.lines().map(event).collect()
    }

    /// Waits until what is put now arrives at both ends.
    async fn flows(&self, producer: &Producer, received: &Mutex<Vec<Event>>, what: &str) {
        for (n, topic) in ["out", "work"].into_iter().enumerate() {
            let id = format!("{what}-{topic}");
            wait_until("a put to be taken", LONG, async || {
                let message = Message::new(Topic::new(topic).unwrap(), id.as_bytes()).id(&*id).unwrap();
                producer.put(message).await.is_ok()
            })
            .await;
            wait_until("a message to arrive", LONG, async || match n {
                0 => arrived(&self.forwarded(), &id),
                _ => arrived(&received.lock().unwrap(), &id),
            })
            .await;
        }
    }
}

// === impl Load ===

impl Load {
    fn start(producer: Producer) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let puts = tokio::spawn(async move {
            let mut puts = Vec::new();
            for n in 0.. {
                if stopped.load(Ordering::Relaxed) {
                    break;
                }
                let (topic, id) = (["out", "work"][n % 2], format!("load-{n}"));
                let due = UnixMillis::new(now_ms() + 300);
                let message =
                    Message::new(Topic::new(topic).unwrap(), id.as_bytes()).at(due).id(&*id).unwrap();
                let answer = match producer.put(message).await {
                    Ok(_) => Answer::Ok,
                    Err(refused) => {
                        assert!(refused.error.is_outage(), "{id}: {}", refused.error);
                        match refused.error.fate() {
                            delayq::Fate::NotApplied => Answer::Refused,
                            delayq::Fate::Unknown => Answer::Unknown,
                        }
                    }
                };
                puts.push((id, due.get(), answer, Instant::now()));
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            puts
        });
        Self { stop, puts }
    }
}

#[allow(clippy::disallowed_methods, reason = "all servers of the test are on this host")]
fn now_ms() -> u64 {
    UnixMillis::from(std::time::SystemTime::now()).get()
}

fn configuration(folder: &Folder, group: &SentinelGroup) -> PathBuf {
    let (path, out) = (folder.join("delayq.toml"), folder.join("out"));
    std::fs::create_dir_all(&out).unwrap();
    let nodes: Vec<String> =
        group.sentinels.iter().map(|sentinel| format!("'{}'", sentinel.address())).collect();
    let text = format!(
        "[deployment]\nshards = {SHARDS}\n[redis.sentinel]\nnodes = [{}]\nservice = '{SERVICE}'\n\
         [etcd]\nenabled = false\n[admin]\nlisten = ''\n[forwarder]\nlease = '3s'\n[sinks.out.file]\ndir = '{}'\n\
         [[routes]]\ntopic = 'out'\nsink = 'out'\nto = 'out.ndjson'\n",
        nodes.join(", "),
        out.display()
    );
    std::fs::write(&path, text).unwrap();
    path
}

fn delayq(configuration: &Path, args: &[&str]) -> Binary {
    Binary::new("delayq").arg("--config").arg(configuration).args(args)
}

/// Receives and acks until it is dropped; what it received is recorded.
fn work(client: Client, received: Arc<Mutex<Vec<Event>>>) -> JoinHandle<()> {
    tokio::spawn(async move {
        let mut options = ConsumerOptions::new([Topic::new("work").unwrap()]);
        options.lease = Some(Duration::from_secs(3));
        let mut consumer = Consumer::start(client, options);
        while let Some(delivery) = consumer.next().await {
            let event = Event::Delivery {
                destination: "work".to_owned(),
                id: delivery.id.to_string(),
                sha256: sha256_hex(delivery.payload()),
                delivery: delivery.envelope.delivery,
                ready_ms: delivery.ready.millis().get(),
            };
            received.lock().unwrap().push(event);
            let _ = delivery.ack().await;
        }
    })
}

fn arrived(events: &[Event], wanted: &str) -> bool {
    events.iter().any(|event| matches!(event, Event::Delivery { id, .. } if id == wanted))
}

/// From when to when, in ms, a failover may cost what was answered; by this host's clock.
struct Window {
    from_ms: u64,
    to_ms: u64,
    from: Instant,
    to: Instant,
}

/// Breaks the master and waits until messages flow again.
async fn failover(
    scene: &mut Scene,
    producer: &Producer,
    received: &Mutex<Vec<Event>>,
    break_it: impl AsyncFn(&mut SentinelGroup),
    what: &str,
) -> (Window, Timing) {
    let (former, stall) = (scene.group.master_by(0).await.unwrap(), Stall::watch());
    let (broken, broken_ms) = (Instant::now(), now_ms());
    break_it(&mut scene.group).await;
    scene.group.master_after(former).await;
    let known = Instant::now();
    scene.flows(producer, received, what).await;
    let timing = Timing::of(what, known.elapsed(), BOUND, stall.allow(BOUND));
    let unreplicated_ms = u64::try_from(UNREPLICATED.as_millis()).unwrap();
    let window = Window {
        from_ms: broken_ms - unreplicated_ms,
        to_ms: now_ms(),
        from: broken - UNREPLICATED,
        to: Instant::now(),
    };
    (window, timing)
}

/// The history of a run; what was answered within a window may have been lost with its master.
fn history(puts: &[(String, u64, Answer, Instant)], deliveries: Vec<Event>, windows: &[Window]) -> History {
    let history = History::new();
    for (id, due_ms, answer, at) in puts {
        let lost = windows.iter().any(|window| (window.from..=window.to).contains(at));
        let answer = if lost && *answer == Answer::Ok { Answer::Unknown } else { *answer };
        history.put(id, *due_ms, id.as_bytes(), answer);
    }
    deliveries.into_iter().for_each(|event| history.record(event));
    history
}

/// A copy of what was delivered in no window is one too many.
fn assert_copies_are_of_failovers(history: &History, windows: &[Window]) {
    let mut seen = BTreeMap::new();
    for event in history.events() {
        let Event::Delivery { id, ready_ms, .. } = event else { continue };
        if let Some(first_ms) = seen.insert(id.clone(), ready_ms) {
            let lease_ms = 5000;
            let is_of = |window: &Window| (window.from_ms - lease_ms..=window.to_ms).contains(&first_ms);
            assert!(windows.iter().any(is_of), "{id} came twice, first at {first_ms}");
        }
    }
}

async fn whole_run() -> Timing {
    let mut scene = Scene::start().await;
    let producer = Producer::start(scene.client.clone(), ProducerOptions::default());
    let received = Arc::new(Mutex::new(Vec::new()));
    let worker = work(scene.client.clone(), Arc::clone(&received));
    scene.flows(&producer, &received, "begin").await;
    let doctor = delayq(&scene.configuration, &["doctor", "--json"]).run(b"", LONG).await;
    for named in ["3 of 3 named answer and see 3, quorum 2", "2 replicas", "min-replicas-to-write is 0"] {
        assert!(doctor.stdout.contains(named), "{doctor:?}");
    }
    let load = Load::start(producer.clone());
    let kill = async |group: &mut SentinelGroup| _ = group.redises[0].kill().await;
    let (killed, timing) = failover(&mut scene, &producer, &received, kill, "killed").await;
    scene.group.redises[0].resume().await;
    scene.group.all_known().await;
    let by_hand = async |group: &mut SentinelGroup| {
        group.sentinels[2].command::<()>(&["SENTINEL", "FAILOVER", SERVICE]).await;
    };
    let (moved, second) = failover(&mut scene, &producer, &received, by_hand, "moved").await;
    load.stop.store(true, Ordering::Relaxed);
    let puts = within("the load to end", LONG, load.puts).await.unwrap();
    for topic in ["out", "work"].map(|topic| Topic::new(topic).unwrap()) {
        wait_until("everything to be delivered", LONG, async || {
            let numbers = Admin::new(scene.client.clone()).count(&topic).await;
            numbers.is_ok_and(|numbers| numbers.delayed + numbers.ready + numbers.leased == 0)
        })
        .await;
    }
    worker.abort();
    let deliveries: Vec<Event> =
        scene.forwarded().into_iter().chain(received.lock().unwrap().clone()).filter(of_load).collect();
    let windows = [killed, moved];
    let history = history(&puts, deliveries, &windows);
    let permit = Permit { duplicates: usize::MAX, rewound: true, ..Permit::default() };
    assert_eq!(check(&history, &permit), Vec::new());
    assert_copies_are_of_failovers(&history, &windows);
    let audit = delayq(&scene.configuration, &["audit", "--bodies"]).run(b"", LONG).await;
    assert_eq!(audit.code, Some(0), "{audit:?}");
    timing.and(second)
}

fn of_load(event: &Event) -> bool {
    matches!(event, Event::Delivery { id, .. } if id.starts_with("load-"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_service_follows_the_master_and_only_what_was_not_replicated_is_lost_or_repeated() {
    conclusive(whole_run).await;
}

#[tokio::test]
async fn the_rules_that_are_printed_for_the_sentinels_are_enough() {
    let (group, folder) = (SentinelGroup::start().await, Folder::new("sentinel"));
    let file = configuration(&folder, &group);
    let printed = delayq(&file, &["acl", "print", "--role", "admin", "--json"]).run(b"", LONG).await;
    let printed: Value = serde_json::from_str(&printed.stdout).unwrap();
    let rule = printed[0]["sentinel"].as_str().unwrap();
    for sentinel in &group.sentinels {
        let words: Vec<&str> = ["ACL", "SETUSER"].into_iter().chain(rule.split(' ').skip(1)).collect();
        sentinel.command::<()>(&words).await;
    }
    let init = |user: &'static str| {
        let init = delayq(&file, &["init"]).env("DELAYQ__REDIS__SENTINEL__USERNAME", user);
        init.env("DELAYQ__REDIS__SENTINEL__PASSWORD", "PASSWORD").run(b"", LONG)
    };
    let refused = init("stranger").await;
    assert!(refused.stderr.contains("WRONGPASS"), "{refused:?}");
    assert_eq!(init("delayq-admin").await.code, Some(0));
}
