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

/// Headers of a read record are sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Records of one key are taken in one after the other.
    pub(crate) key: String,
}

/// A broker with a source (topic, queue or stream), and a dead destination.
pub(crate) trait Broker: Sized + Send + Sync {
    const EVENT_PREFIX: &'static str;
    /// Number of records of a test that kills something in their midst.
    const RECORDS: u64 = 1000;
    /// Text of the report about a missing source.
    const MISSING: &'static str;
    /// Text in the origin of a dead record.
    const ORIGIN: &'static str;

    /// The keys of TLS and login besides the common keys.
    const TLS: &'static str;
    const LOGIN: &'static str;

    /// `section` leads to the guarded side of the broker.
    fn start(guard: Guard<'_>) -> impl Future<Output = Self> + Send;
    /// The tables of the intake's kind, below `[intake.orders]` with its `dead`.
    fn section(&self) -> String;
    fn publish(&self, records: Vec<Sent>) -> impl Future<Output = ()> + Send;
    fn dead(&self, count: usize) -> impl Future<Output = Vec<Sent>> + Send;
    /// Waits until a kill costs nothing of the created objects.
    fn keep_created(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }
    fn buried(&self) -> impl Future<Output = u64> + Send;
    /// Number of records that the broker would deliver without a compensator.
    fn unsettled(&self) -> impl Future<Output = u64> + Send;
    fn delete(&self, place: Place) -> impl Future<Output = ()> + Send;
    fn create(&self, place: Place) -> impl Future<Output = ()> + Send;
    fn kill(&mut self) -> impl Future<Output = ()> + Send;
    fn resume(&mut self) -> impl Future<Output = ()> + Send;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Source,
    Dead,
}

#[derive(Clone, Copy)]
pub(crate) enum Guard<'a> {
    Open,
    /// Clients with a certificate of this authority, which signed the broker's own too.
    Asking(&'a Authority),
    /// [`USER`] with [`PASSWORD`].
    Login,
}

pub(crate) const USER: &str = "delayq";
pub(crate) const PASSWORD: &str = "correct-horse";

pub(crate) struct Stage<B> {
    pub(crate) deployment: Deployment<RedisServer>,
    pub(crate) broker: B,
    pub(crate) folder: Folder,
}

pub(crate) struct Running {
    pub(crate) process: Process,
    pub(crate) endpoint: AdminEndpoint,
}

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

    /// A put of the topic `orders`, due in the year 2100, with more headers.
    pub(crate) fn put(id: &str, more: &[(&str, &str)]) -> Self {
        let base = [("delayq-topic", "orders"), ("delayq-id", id), ("delayq-due", "4102444800000")];
        Self { key: id.to_owned(), ..Self::new(&[&base[..], more].concat(), &format!("body of {id}")) }
    }

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

    pub(crate) async fn compensator(&self, more: &str) -> Running {
        self.compensator_with(more, "").await
    }

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
        // After an outage the first call may meet the former connection.
        let numbers = wait_for("the books", LONG, async || admin.topic(&topic()).count().await.ok()).await;
        Books {
            accepted: numbers.accepted,
            delayed: numbers.delayed,
            ready: numbers.ready,
            cancelled: numbers.cancelled,
        }
    }

    pub(crate) async fn has_delayed(&self, count: u64) {
        wait_until(&format!("{count} delayed messages"), LONG, async || self.books().await.delayed >= count)
            .await;
    }

    pub(crate) async fn is_settled(&self) {
        wait_until("all records to be settled", LONG, async || self.broker.unsettled().await == 0).await;
    }

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

    pub(crate) async fn is_unready(&self, why: &str) {
        wait_until(why, LONG, async || {
            let (status, body) = self.endpoint.get("/readyz").await;
            status != 200 && body.contains(why)
        })
        .await;
    }

    /// A series of the metrics, such as `source_held_total{source="intake.orders"}`.
    pub(crate) async fn metric(&self, series: &str) -> Option<f64> {
        let (_, text) = self.endpoint.get("/metrics").await;
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("delayq_{series} ")));
        line.and_then(|value| value.parse().ok())
    }

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
