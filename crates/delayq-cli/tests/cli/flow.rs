//! The whole of delayq under load: timer, forwarder, producer and worker, while their Redis changes.

use delayq::{
    Admin, Client, Consumer, ConsumerOptions, Message, Producer, Settings, ShardCount, Topic, UnixMillis,
};
use delayq_tests::binary::Binary;
use delayq_tests::deadline::{LONG, wait_for, wait_until, within};
use delayq_tests::folder::Folder;
use delayq_tests::history::{Answer, Event, History, sha256_hex};
use delayq_tests::invariants::{Permit, check};
use delayq_tests::process::{Process, Signal};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::task::{JoinHandle, JoinSet};

/// How long after a new master is known a message is put, moved and delivered at the latest.
pub(crate) const BOUND: Duration = Duration::from_secs(3);
/// For how long before a fault an answered write may be missing from the replica that takes over.
const UNREPLICATED: Duration = Duration::from_secs(2);

/// A deployment, and the services that work on it.
pub(crate) struct Flow {
    folder: Folder,
    pub(crate) configuration: PathBuf,
    pub(crate) client: Client,
    pub(crate) received: Arc<Mutex<Vec<Event>>>,
    services: Vec<Process>,
    _worker: JoinSet<()>,
}

/// Puts for a worker and for a forwarder, one after another, and what was answered when.
pub(crate) struct Load {
    pub(crate) stop: Arc<AtomicBool>,
    puts: JoinHandle<Vec<(String, u64, Answer, Instant)>>,
}

// === impl Flow ===

impl Flow {
    /// `redis` is that section of the configuration, `settings` the same for this process.
    pub(crate) async fn start(redis: &str, settings: Settings) -> Self {
        let folder = Folder::new("flow");
        let configuration = configuration(&folder, redis, settings.shards);
        let init = delayq(&configuration, &["init"]).run(b"", LONG).await;
        assert_eq!(init.code, Some(0), "{init:?}");
        let services = services(&configuration);
        let client = Client::new(settings);
        let received = Arc::default();
        let mut worker = JoinSet::new();
        worker.spawn(work(client.clone(), Arc::clone(&received)));
        Self { folder, configuration, client, received, services, _worker: worker }
    }

    /// Stops the timer and the forwarder in order, and starts others.
    pub(crate) async fn restart_services(&mut self) {
        for service in &mut self.services {
            service.end_by(Signal::TERM, LONG).await;
        }
        self.services = services(&self.configuration);
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
    pub(crate) async fn flows(&self, producer: &Producer, what: &str) {
        for topic in ["out", "work"] {
            let id = format!("{what}-{topic}");
            wait_until("a put to be taken", LONG, async || {
                let message = Message::new(Topic::new(topic).unwrap(), id.as_bytes()).id(&*id).unwrap();
                producer.put(message).await.is_ok()
            })
            .await;
            self.arrives(topic, &id).await;
        }
    }

    /// As [`Self::flows`], under ids that are generated.
    pub(crate) async fn flows_anywhere(&self, producer: &Producer) {
        for topic in ["out", "work"] {
            let id = wait_for("a put to be taken", LONG, async || {
                let put = producer.put(Message::new(Topic::new(topic).unwrap(), "x")).await;
                put.ok().map(|put| put.reference.id.to_string())
            })
            .await;
            self.arrives(topic, &id).await;
        }
    }

    async fn arrives(&self, topic: &str, id: &str) {
        wait_until("a message to arrive", LONG, async || match topic {
            "out" => arrived(&self.forwarded(), id),
            _ => arrived(&self.received.lock().unwrap(), id),
        })
        .await;
    }

    /// Ends the load, waits until everything is delivered, and checks the run: what was answered within a window may be lost
    /// or come twice, and nothing else.
    pub(crate) async fn check(&self, load: Load, windows: &[Window]) {
        self.check_losses(load, windows, windows).await;
    }

    /// As [`Self::check`]: what may be lost, and what may come twice.
    pub(crate) async fn check_losses(&self, load: Load, lost: &[Window], windows: &[Window]) {
        load.stop.store(true, Ordering::Relaxed);
        let puts = within("the load to end", LONG, load.puts).await.unwrap();
        for topic in ["out", "work"].map(|topic| Topic::new(topic).unwrap()) {
            wait_until("everything to be delivered", LONG, async || {
                let numbers = Admin::new(self.client.clone()).count(&topic).await;
                numbers.is_ok_and(|numbers| numbers.delayed + numbers.ready + numbers.leased == 0)
            })
            .await;
        }
        let received = self.received.lock().unwrap().clone();
        let deliveries: Vec<Event> = self.forwarded().into_iter().chain(received).filter(of_load).collect();
        let history = history(&puts, deliveries, lost);
        let permit = Permit { duplicates: usize::MAX, rewound: true, ..Permit::default() };
        assert_eq!(check(&history, &permit), Vec::new());
        assert_copies_are_of_failovers(&history, windows);
        let audit = delayq(&self.configuration, &["audit", "--bodies"]).run(b"", LONG).await;
        assert_eq!(audit.code, Some(0), "{audit:?}");
    }
}

// === impl Load ===

impl Load {
    pub(crate) fn start(producer: Producer) -> Self {
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

/// A timer and a forwarder.
fn services(configuration: &Path) -> Vec<Process> {
    let start = |role: &str| Binary::new(&format!("delayq-{role}")).arg(configuration).start();
    vec![start("timer"), start("forwarder")]
}

fn configuration(folder: &Folder, redis: &str, shards: ShardCount) -> PathBuf {
    let (path, out) = (folder.join("delayq.toml"), folder.join("out"));
    std::fs::create_dir_all(&out).unwrap();
    let text = format!(
        "[deployment]\nshards = {shards}\n{redis}\n[etcd]\nenabled = false\n[admin]\nlisten = ''\n\
         [forwarder]\nlease = '3s'\n[sinks.out.file]\ndir = '{}'\n\
         [[routes]]\ntopic = 'out'\nsink = 'out'\nto = 'out.ndjson'\n",
        out.display()
    );
    std::fs::write(&path, text).unwrap();
    path
}

pub(crate) fn delayq(configuration: &Path, args: &[&str]) -> Binary {
    Binary::new("delayq").arg("--config").arg(configuration).args(args)
}

/// Receives and acks until it is dropped; what it received is recorded.
async fn work(client: Client, received: Arc<Mutex<Vec<Event>>>) {
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
}

fn arrived(events: &[Event], wanted: &str) -> bool {
    events.iter().any(|event| matches!(event, Event::Delivery { id, .. } if id == wanted))
}

/// From when to when, in ms, a failover may cost what was answered; by this host's clock.
pub(crate) struct Window {
    from_ms: u64,
    to_ms: u64,
    from: Instant,
    to: Instant,
}

// === impl Window ===

impl Window {
    /// From a while before a fault until now.
    pub(crate) fn since((broken, broken_ms): (Instant, u64)) -> Self {
        let unreplicated_ms = u64::try_from(UNREPLICATED.as_millis()).unwrap();
        let from_ms = broken_ms - unreplicated_ms;
        Self { from_ms, to_ms: now_ms(), from: broken - UNREPLICATED, to: Instant::now() }
    }
}

/// This moment, by the clock of this process and by that of the host.
pub(crate) fn moment() -> (Instant, u64) {
    (Instant::now(), now_ms())
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

fn of_load(event: &Event) -> bool {
    matches!(event, Event::Delivery { id, .. } if id.starts_with("load-"))
}
