//! All of delayq under load: timer, forwarder, producer and worker, while their Redis changes.

use delayq::{
    Admin, Client, Consumer, ConsumerOptions, Error, Message, Producer, ProducerOptions, Settings,
    ShardCount, Topic, UnixMillis,
};
use delayq_spool::{SpoolReader, SpoolSettings, SpoolStats, SpoolWriter};
use delayq_tests::binary::Binary;
use delayq_tests::deadline::{LONG, wait_for, wait_until, within};
use delayq_tests::etcd_server::EtcdCluster;
use delayq_tests::folder::Folder;
use delayq_tests::history::{Answer, Event, sha256_hex};
use delayq_tests::invariants::{Permit, check};
use delayq_tests::outages::{Window, assert_copies_are_of_outages, history, now_ms};
use delayq_tests::process::{Process, Signal};
use delayq_tests::redis_server::{RedisOptions, RedisServer};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};

pub(crate) const SERVICES: [&str; 2] = ["delayq-timer", "delayq-forwarder"];
const OF_A_FLEET: [&str; 2] = ["delayq-timer", "delayq-compensator"];
/// The lease of a delivery to the worker and to the forwarder.
pub(crate) const LEASE: Duration = Duration::from_secs(3);

pub(crate) struct Flow {
    folder: Folder,
    pub(crate) configuration: PathBuf,
    pub(crate) client: Client,
    pub(crate) received: Arc<Mutex<Vec<Event>>>,
    services: Vec<Process>,
    fleet: Option<Fleet>,
    worker: Worker,
}

struct Worker {
    stop: oneshot::Sender<()>,
    ended: JoinHandle<()>,
}

pub(crate) struct Fleet {
    etcd: EtcdCluster,
    streams: RedisServer,
    streamed: tokio::sync::Mutex<Streamed>,
}

#[derive(Default)]
struct Streamed {
    last: Option<String>,
    events: Vec<Event>,
}

pub(crate) struct Load {
    pub(crate) stop: Arc<AtomicBool>,
    producer: Arc<Mutex<Producer>>,
    puts: JoinHandle<Vec<Put>>,
}

/// Id, due time, answer, and time of the answer in ms.
type Put = (String, u64, Answer, u64);

// === impl Flow ===

impl Flow {
    pub(crate) async fn start(redis: &str, settings: Settings) -> Self {
        Self::start_with(redis, settings, None).await
    }

    pub(crate) async fn start_fleet(redis: &str, settings: Settings) -> Self {
        let streams = RedisServer::start_with(RedisOptions::default().append_only("everysec")).await;
        let fleet = Fleet { etcd: EtcdCluster::start_one().await, streams, streamed: Default::default() };
        let mut flow = Self::start_with(redis, settings, Some(fleet)).await;
        // A program without a Redis at its start ends.
        for service in &mut flow.services {
            service.wait_for_line("\"message\":\"started\"", LONG).await;
        }
        flow
    }

    async fn start_with(redis: &str, settings: Settings, fleet: Option<Fleet>) -> Self {
        let folder = Folder::new("flow");
        let configuration = configuration(&folder, redis, settings.shards, fleet.as_ref());
        let init = delayq(&configuration, &["init"]).run(b"", LONG).await;
        assert_eq!(init.code, Some(0), "{init:?}");
        let services = services(&configuration, fleet.is_some());
        let (client, received) = (Client::new(settings), Arc::default());
        let worker = Worker::start(client.clone(), Arc::clone(&received));
        Self { folder, configuration, client, received, services, fleet, worker }
    }

    pub(crate) fn producer(&self) -> Producer {
        let mut options = ProducerOptions::default();
        if self.fleet.is_some() {
            let spool = SpoolWriter::open(&self.folder.join("spool"), &SpoolSettings::default()).unwrap();
            options = options.spool(Arc::new(spool));
        }
        Producer::start(self.client.clone(), options)
    }

    pub(crate) fn spooled(&self) -> SpoolStats {
        SpoolReader::open_beside(&self.folder.join("spool")).unwrap().stats().unwrap()
    }

    pub(crate) async fn restart_services(&mut self) {
        for service in &mut self.services {
            service.end_by(Signal::TERM, LONG).await;
        }
        self.services = services(&self.configuration, self.fleet.is_some());
    }

    /// Changes the configuration for services started from now on.
    pub(crate) fn rewrite(&self, before: &str, after: &str) {
        let text = std::fs::read_to_string(&self.configuration).unwrap();
        assert!(text.contains(before), "{text}");
        std::fs::write(&self.configuration, text.replace(before, after)).unwrap();
    }

    pub(crate) async fn restart_service(&mut self, which: usize) {
        self.services[which].end_by(Signal::TERM, LONG).await;
        self.services[which] = service(&self.configuration, SERVICES[which]);
    }

    pub(crate) async fn restart_worker(&mut self, settings: Settings) {
        self.client = Client::new(settings);
        let next = Worker::start(self.client.clone(), Arc::clone(&self.received));
        std::mem::replace(&mut self.worker, next).stop().await;
    }

    async fn forwarded(&self) -> Vec<Event> {
        match &self.fleet {
            Some(fleet) => fleet.streamed(<[Event]>::to_vec).await,
            None => self.written(),
        }
    }

    async fn is_forwarded(&self, id: &str) -> Option<u32> {
        match &self.fleet {
            Some(fleet) => fleet.streamed(|events| arrived(events, id)).await,
            None => arrived(&self.written(), id),
        }
    }

    /// Fails if a service has ended.
    pub(crate) fn sizes_kib(&mut self) -> Vec<(&'static str, u64)> {
        let size = |(name, service): (&&'static str, &mut Process)| {
            assert_eq!(service.ended(), None, "{name}:\n{}", service.tail());
            (*name, service.resident_kib().expect("it runs"))
        };
        SERVICES.iter().chain(&OF_A_FLEET).zip(&mut self.services).map(size).collect()
    }

    fn written(&self) -> Vec<Event> {
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

    pub(crate) async fn flows(&self, producer: &Producer, what: &str) {
        self.put(producer, what).await;
        self.both_arrive(what).await;
    }

    pub(crate) async fn put(&self, producer: &Producer, what: &str) {
        let put = async |topic: &str| {
            let id = format!("{what}-{topic}");
            wait_until("a put to be taken", LONG, async || {
                let message = Message::new(Topic::new(topic).unwrap(), id.as_bytes()).id(&*id).unwrap();
                producer.put(message).await.is_ok()
            })
            .await;
        };
        tokio::join!(put("out"), put("work"));
    }

    /// Waits until both messages arrive; true if each came by its first delivery.
    pub(crate) async fn both_arrive(&self, what: &str) -> bool {
        let mut handed_out = 0;
        for topic in ["out", "work"] {
            handed_out = handed_out.max(self.arrives(topic, &format!("{what}-{topic}")).await);
        }
        handed_out == 1
    }

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

    /// Waits until the message arrives; returns the number of deliveries.
    async fn arrives(&self, topic: &str, id: &str) -> u32 {
        wait_for("a message to arrive", LONG, async || match topic {
            "out" => self.is_forwarded(id).await,
            _ => arrived(&self.received.lock().unwrap(), id),
        })
        .await
    }

    /// Ends the load, waits until everything is delivered, and checks the run: only puts answered within a
    /// window may be lost or come twice.
    pub(crate) async fn check(&self, load: Load, windows: &[Window]) {
        self.check_losses(load, windows, windows).await;
    }

    /// Like [`Self::check`], with separate windows for losses and for repeats.
    pub(crate) async fn check_losses(&self, load: Load, lost: &[Window], windows: &[Window]) {
        load.stop.store(true, Ordering::Relaxed);
        let puts = within("the load to end", LONG, load.puts).await.unwrap();
        for topic in ["out", "work"].map(|topic| Topic::new(topic).unwrap()) {
            wait_until("everything to be delivered", LONG, async || {
                let numbers = Admin::new(self.client.clone()).topic(&topic).count().await;
                numbers.is_ok_and(|numbers| numbers.delayed + numbers.ready + numbers.leased == 0)
            })
            .await;
        }
        let received = self.received.lock().unwrap().clone();
        let deliveries: Vec<Event> =
            self.forwarded().await.into_iter().chain(received).filter(of_load).collect();
        let history = history(&puts, deliveries, lost);
        let permit = Permit { duplicates: usize::MAX, rewound: true, ..Permit::default() };
        let violations = check(&history, &permit);
        let named = |(id, ..): &&Put| violations.iter().any(|violation| violation.what.contains(&**id));
        let evidence: Vec<&Put> = puts.iter().filter(named).collect();
        assert!(violations.is_empty(), "{violations:?} of {evidence:?}, with losses in {lost:?}");
        assert_copies_are_of_outages(&history, windows);
        let audit = delayq(&self.configuration, &["audit", "--bodies"]).run(b"", LONG).await;
        assert_eq!(audit.code, Some(0), "{audit:?}");
    }
}

// === impl Fleet ===

impl Fleet {
    async fn streamed<T>(&self, look: impl FnOnce(&[Event]) -> T) -> T {
        let mut streamed = self.streamed.lock().await;
        let from = streamed.last.as_ref().map_or("-".to_owned(), |last| format!("({last}"));
        let entries: Vec<(String, BTreeMap<String, String>)> =
            self.streams.command(&["XRANGE", "out", &from, "+"]).await;
        if let Some((last, _)) = entries.last() {
            streamed.last = Some(last.clone());
        }
        let event = |(_, fields): (String, BTreeMap<String, String>)| Event::Delivery {
            destination: "out".to_owned(),
            id: fields["delayq-id"].clone(),
            sha256: sha256_hex(fields["payload"].as_bytes()),
            delivery: fields["delayq-delivery"].parse().unwrap(),
            ready_ms: fields["delayq-ready"].parse().unwrap(),
        };
        streamed.events.extend(entries.into_iter().map(event));
        look(&streamed.events)
    }

    fn sections(&self, folder: &Folder) -> [String; 3] {
        [
            format!("[etcd]\nendpoints = {:?}\nlease_ttl = '3s'", self.etcd.endpoints()),
            format!("[sinks.out.redis]\nserver = {{ url = '{}' }}", self.streams.url()),
            format!("[spool]\ndir = '{}'", folder.join("spool").display()),
        ]
    }
}

// === impl Load ===

impl Load {
    pub(crate) fn start(producer: Producer) -> Self {
        Self::start_every(Duration::from_millis(5), producer)
    }

    pub(crate) fn start_every(pause: Duration, producer: Producer) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let producer = Arc::new(Mutex::new(producer));
        let present = Arc::clone(&producer);
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
                let producer = present.lock().unwrap().clone();
                let answer = match producer.put(message).await {
                    Ok(_) => Answer::Ok,
                    Err(refused) => {
                        let is_lost = matches!(refused.error, Error::Uninitialised(_));
                        assert!(refused.error.is_outage() || is_lost, "{id}: {}", refused.error);
                        match refused.error.fate() {
                            delayq::Fate::NotApplied => Answer::Refused,
                            delayq::Fate::Unknown => Answer::Unknown,
                        }
                    }
                };
                puts.push((id, due.get(), answer, now_ms()));
                tokio::time::sleep(pause).await;
            }
            puts
        });
        Self { stop, producer, puts }
    }

    pub(crate) fn turn_to(&self, producer: Producer) {
        *self.producer.lock().unwrap() = producer;
    }
}

fn services(configuration: &Path, whole: bool) -> Vec<Process> {
    let more: &[&str] = if whole { &OF_A_FLEET } else { &[] };
    SERVICES.iter().chain(more).map(|role| service(configuration, role)).collect()
}

fn service(configuration: &Path, role: &str) -> Process {
    Binary::new(role).arg(configuration).start()
}

fn configuration(folder: &Folder, redis: &str, shards: ShardCount, fleet: Option<&Fleet>) -> PathBuf {
    let (path, out) = (folder.join("delayq.toml"), folder.join("out"));
    for part in [&out, &folder.join("spool")] {
        std::fs::create_dir_all(part).unwrap();
    }
    let [etcd, sink, spool] = match fleet {
        Some(fleet) => fleet.sections(folder),
        None => [
            "[etcd]\nenabled = false".to_owned(),
            format!("[sinks.out.file]\ndir = '{}'", out.display()),
            String::new(),
        ],
    };
    let to = if fleet.is_some() { "out" } else { "out.ndjson" };
    let lease = LEASE.as_millis();
    let text = format!(
        "[deployment]\nshards = {shards}\n{redis}\n{etcd}\n[admin]\nlisten = ''\n\
         [forwarder]\nlease = '{lease}ms'\n{sink}\n[[routes]]\ntopic = 'out'\nsink = 'out'\nto = '{to}'\n{spool}\n",
    );
    std::fs::write(&path, text).unwrap();
    path
}

pub(crate) fn delayq(configuration: &Path, args: &[&str]) -> Binary {
    Binary::new("delayq").arg("--config").arg(configuration).args(args)
}

// === impl Worker ===

impl Worker {
    fn start(client: Client, received: Arc<Mutex<Vec<Event>>>) -> Self {
        let (stop, stopped) = oneshot::channel();
        Self { stop, ended: tokio::spawn(work(client, received, stopped)) }
    }

    async fn stop(self) {
        let _ = self.stop.send(());
        within("the worker to end", LONG, self.ended).await.unwrap();
    }
}

async fn work(client: Client, received: Arc<Mutex<Vec<Event>>>, mut stopped: oneshot::Receiver<()>) {
    let mut options = ConsumerOptions::new([Topic::new("work").unwrap()]);
    options.lease = Some(LEASE);
    let mut consumer = Consumer::start(client, options).unwrap();
    let mut acks = JoinSet::new();
    loop {
        let delivery = tokio::select! {
            biased;
            _ = &mut stopped => break,
            _ = acks.join_next(), if !acks.is_empty() => continue,
            delivery = consumer.next() => delivery,
        };
        let Some(delivery) = delivery else { break };
        let event = Event::Delivery {
            destination: "work".to_owned(),
            id: delivery.id.to_string(),
            sha256: sha256_hex(delivery.payload()),
            delivery: delivery.envelope.delivery,
            ready_ms: delivery.ready.millis().get(),
        };
        received.lock().unwrap().push(event);
        acks.spawn(delivery.ack());
    }
    acks.join_all().await;
    consumer.stop().await;
}

fn arrived(events: &[Event], wanted: &str) -> Option<u32> {
    events.iter().find_map(|event| match event {
        Event::Delivery { id, delivery, .. } if id == wanted => Some(*delivery),
        _ => None,
    })
}

fn of_load(event: &Event) -> bool {
    matches!(event, Event::Delivery { id, .. } if id.starts_with("load-"))
}
