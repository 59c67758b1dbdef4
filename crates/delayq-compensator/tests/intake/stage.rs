//! A deployment, a broker, and compensators between them.

use delayq::protocol::{Holder, Reservation, ReserveRequest};
use delayq::{Admin, Topic};
use delayq_tests::admin_endpoint::AdminEndpoint;
use delayq_tests::certs::Authority;
use delayq_tests::deadline::{LONG, wait_for, wait_until, within};
use delayq_tests::deployment::Deployment;
use delayq_tests::folder::Folder;
use delayq_tests::process::{Process, Signal};
use delayq_tests::redis_server::{RedisOptions, RedisServer};
use std::collections::BTreeMap;
use std::future::Future;
use std::process::Command;

const PROGRAM: &str = env!("CARGO_BIN_EXE_delayq-compensator");

/// A record to publish, or one that was buried. Headers are sorted where they were read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// What keeps records in order: of one key, they are taken in one after the other.
    pub(crate) key: String,
}

/// A broker with a topic, queue or stream that is taken in, and one of dead records.
pub(crate) trait Broker: Sized + Send + Sync {
    /// What the names of an event's attributes begin with.
    const EVENT_PREFIX: &'static str;
    /// What is said of a source that does not exist.
    const MISSING: &'static str;
    /// What the origin of a dead record contains.
    const ORIGIN: &'static str;

    /// The keys of TLS and login besides those that all have.
    const TLS: &'static str;
    const LOGIN: &'static str;

    /// Starts one; `section` leads to its guarded side.
    fn start(guard: Guard<'_>) -> impl Future<Output = Self> + Send;
    /// The tables of the intake's kind, below `[intake.orders]` with its `dead`.
    fn section(&self) -> String;
    fn publish(&self, records: Vec<Sent>) -> impl Future<Output = ()> + Send;
    /// Everything that was buried, once there are so many.
    fn dead(&self, count: usize) -> impl Future<Output = Vec<Sent>> + Send;
    /// Waits until a kill costs none of what was created.
    fn keep_created(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }
    /// How many records are in the dead destination.
    fn buried(&self) -> impl Future<Output = u64> + Send;
    /// How many records it would hand out if no compensator ran.
    fn unsettled(&self) -> impl Future<Output = u64> + Send;
    /// Deletes the topic, queue or stream.
    fn delete(&self, place: Place) -> impl Future<Output = ()> + Send;
    /// Creates it again.
    fn create(&self, place: Place) -> impl Future<Output = ()> + Send;
    fn kill(&mut self) -> impl Future<Output = ()> + Send;
    fn resume(&mut self) -> impl Future<Output = ()> + Send;
}

/// What is taken in, or the dead destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Source,
    Dead,
}

/// Whom a broker lets in.
#[derive(Clone, Copy)]
pub(crate) enum Guard<'a> {
    Open,
    /// Who shows a certificate of this authority, which signed the broker's own too.
    Asking(&'a Authority),
    /// [`USER`] with [`PASSWORD`].
    Login,
}

pub(crate) const USER: &str = "delayq";
pub(crate) const PASSWORD: &str = "correct-horse";

/// A Redis and a broker.
pub(crate) struct Stage<B> {
    pub(crate) deployment: Deployment<RedisServer>,
    pub(crate) broker: B,
    pub(crate) folder: Folder,
}

/// A compensator under way.
pub(crate) struct Running {
    pub(crate) process: Process,
    pub(crate) endpoint: AdminEndpoint,
}

/// What is in Redis of one topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Books {
    pub(crate) accepted: u64,
    pub(crate) delayed: u64,
    pub(crate) ready: u64,
    pub(crate) cancelled: u64,
}

// === impl Sent ===

impl Sent {
    pub(crate) fn new(headers: &[(&str, &str)], body: &str) -> Self {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Self { headers, body: body.into(), key: "k".to_owned() }
    }

    /// A put of the topic `orders` that is due in the year 2100, with more headers.
    pub(crate) fn put(id: &str, more: &[(&str, &str)]) -> Self {
        let base = [("delayq-topic", "orders"), ("delayq-id", id), ("delayq-due", "4102444800000")];
        Self { key: id.to_owned(), ..Self::new(&[&base[..], more].concat(), &format!("body of {id}")) }
    }

    /// A verb on a message of the topic `orders`.
    pub(crate) fn verb(verb: &str, id: &str, more: &[(&str, &str)]) -> Self {
        let base = [("delayq-verb", verb), ("delayq-topic", "orders"), ("delayq-id", id)];
        Self { key: id.to_owned(), ..Self::new(&[&base[..], more].concat(), "") }
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(own, _)| own == name).map_or("", |(_, value)| value)
    }
}

// === impl Stage ===

impl<B: Broker> Stage<B> {
    pub(crate) async fn start() -> Self {
        Self::guarded(Guard::Open).await
    }

    pub(crate) async fn guarded(guard: Guard<'_>) -> Self {
        Self::on(B::start(guard).await).await
    }

    pub(crate) async fn on(broker: B) -> Self {
        let redis = RedisServer::start_with(RedisOptions::default().append_only("always")).await;
        let deployment = Deployment::on(redis, 4).await;
        Self { deployment, broker, folder: Folder::new("intake") }
    }

    /// Starts a compensator; `more` are further keys of `[intake.orders]`.
    pub(crate) async fn compensator(&self, more: &str) -> Running {
        self.compensator_with(more, "").await
    }

    /// The same, with further keys of the intake's kind.
    pub(crate) async fn compensator_with(&self, more: &str, of_kind: &str) -> Running {
        let path = self.folder.join(&format!("delayq-{}.toml", fastrand::u32(..)));
        let text = format!(
            "{}[admin]\nlisten = \"127.0.0.1:0\"\n[intake.orders]\nlongest_rest = \"500ms\"\n{more}\n{}{of_kind}\n",
            self.deployment.sections(),
            self.broker.section(),
        );
        std::fs::write(&path, text).unwrap();
        let mut command = Command::new(PROGRAM);
        command.arg(&path);
        let mut process = Process::spawn("delayq-compensator", command);
        let endpoint = AdminEndpoint::of(&mut process).await;
        Running { process, endpoint }
    }

    pub(crate) async fn books(&self) -> Books {
        let admin = Admin::new(self.deployment.client.clone());
        // After an outage the first call may meet the connection of before.
        let numbers = wait_for("the books", LONG, async || admin.topic(&topic()).count().await.ok()).await;
        Books {
            accepted: numbers.accepted,
            delayed: numbers.delayed,
            ready: numbers.ready,
            cancelled: numbers.cancelled,
        }
    }

    /// Waits until so many messages are delayed in Redis.
    pub(crate) async fn has_delayed(&self, count: u64) {
        wait_until(&format!("{count} delayed messages"), LONG, async || self.books().await.delayed >= count)
            .await;
    }

    /// Waits until the broker has nothing left to hand out.
    pub(crate) async fn is_settled(&self) {
        wait_until("all records to be settled", LONG, async || self.broker.unsettled().await == 0).await;
    }

    /// So many messages that are ready, by their ids.
    pub(crate) async fn reserved(&self, count: usize) -> BTreeMap<String, Reservation> {
        let holder = Holder::new(self.deployment.client.clone());
        let ask = ReserveRequest { topics: vec![topic()], most: 100, max_bytes: 0, lease: None };
        let mut all = BTreeMap::new();
        within("messages that are ready", LONG, async {
            while all.len() < count {
                for shard in self.deployment.client.shards().shards() {
                    let found = holder.reserve(&[(shard, ask.clone())]).await.remove(0).unwrap().messages;
                    all.extend(found.into_iter().map(|found| (found.id.to_string(), found)));
                }
            }
        })
        .await;
        all
    }
}

// === impl Running ===

impl Running {
    pub(crate) async fn is_ready(&self) {
        wait_until("a compensator that is ready", LONG, async || self.endpoint.get("/readyz").await.0 == 200)
            .await;
    }

    /// Waits until it is not ready, for a reason that contains this.
    pub(crate) async fn is_unready(&self, why: &str) {
        wait_until(why, LONG, async || {
            let (status, body) = self.endpoint.get("/readyz").await;
            status != 200 && body.contains(why)
        })
        .await;
    }

    /// The value of a series of its metrics, such as `source_held_total{source="intake.orders"}`.
    pub(crate) async fn metric(&self, series: &str) -> Option<f64> {
        let (_, text) = self.endpoint.get("/metrics").await;
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("delayq_{series} ")));
        line.and_then(|value| value.parse().ok())
    }

    /// Waits until a series has this value.
    pub(crate) async fn shows(&self, series: &str, value: f64) {
        wait_until(&format!("{series} {value}"), LONG, async || self.metric(series).await == Some(value))
            .await;
    }

    pub(crate) async fn kill(mut self) {
        let ended = self.process.end_by(Signal::KILL, LONG).await;
        assert_eq!(ended.code(), None, "it ended by itself: {}", self.process.tail());
    }

    pub(crate) async fn stop(mut self) {
        let ended = self.process.end_by(Signal::TERM, LONG).await;
        assert_eq!(ended.code(), Some(0), "{}", self.process.tail());
    }
}

pub(crate) fn topic() -> Topic {
    Topic::new("orders").unwrap()
}
