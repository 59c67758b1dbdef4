//! A deployment of a benchmark: its shards in a Redis, and what is put there, pumped and forwarded.

use delayq::{Admin, Client, Message, Namespace, Producer, Topic, UnixMillis};
use delayq_forwarder::{Deps, Forwarder, RouteConfig, SinkConfig, build};
use delayq_service::config::RedisConfig;
use delayq_service::{Metrics, Readiness, Traces};
use delayq_tests::deadline::SHORT;
use delayq_tests::deployment::{created, settings};
use delayq_tests::process::Process;
use delayq_tests::redis_server::SharedRedis;
use delayq_tests::shared::namespace;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The size of every body, unless a benchmark says otherwise.
pub(crate) const BODY_BYTES: usize = 200;
/// Messages in one call of the producer while a deployment is filled.
const FILLED_AT_ONCE: usize = 8000;

/// A deployment.
pub(crate) struct Deployment {
    pub(crate) client: Client,
    admin: Admin,
    producer: Producer,
    redis: RedisConfig,
}

/// A process of this workspace, and the folder of its configuration.
pub(crate) struct Running {
    pub(crate) process: Process,
    _folder: tempfile::TempDir,
}

/// A body of its own for each number.
pub(crate) fn body(n: usize) -> Vec<u8> {
    let mut body = format!("{{\"n\":{n}}}").into_bytes();
    body.resize(BODY_BYTES, b' ');
    body
}

pub(crate) fn topic(name: &str) -> Topic {
    Topic::new(name).unwrap()
}

/// A route of one topic to one destination.
pub(crate) fn route(topic: &str, sink: &str, to: &str) -> RouteConfig {
    RouteConfig {
        topic: topic.parse().unwrap(),
        sink: sink.to_owned(),
        to: Some(to.parse().unwrap()),
        ..RouteConfig::default()
    }
}

// === impl Deployment ===

impl Deployment {
    /// An empty one of its own namespace.
    pub(crate) async fn new(server: &SharedRedis, shards: u16) -> Self {
        let own = settings(server.url(), shards).namespace(Namespace::new(namespace()).unwrap());
        let (client, admin, producer) = created(own).await;
        let redis = RedisConfig { url: server.url().parse().unwrap(), ..RedisConfig::default() };
        Self { client, admin, producer, redis }
    }

    /// Puts so many messages that are ready at once.
    pub(crate) async fn fill(&self, name: &str, count: usize) {
        let numbers: Vec<usize> = (0..count).collect();
        for chunk in numbers.chunks(FILLED_AT_ONCE) {
            let messages = chunk.iter().map(|&n| Message::new(topic(name), body(n))).collect();
            for put in self.producer.put_many(messages).await {
                put.unwrap();
            }
        }
    }

    /// A forwarder over it, and what it counts.
    pub(crate) async fn forwarder(
        &self,
        sinks: BTreeMap<String, SinkConfig>,
        routes: Vec<RouteConfig>,
    ) -> (Forwarder, Metrics) {
        let settings = delayq_forwarder::Settings { sinks, routes, ..delayq_forwarder::Settings::default() };
        let metrics = Metrics::new();
        let deps = Deps {
            client: self.client.clone(),
            redis: self.redis.clone(),
            metrics: metrics.clone(),
            readiness: Readiness::new(),
            traces: Traces::default(),
        };
        (build(settings, deps).await.unwrap(), metrics)
    }

    /// Puts messages that are due at these times, their body beginning with the time.
    pub(crate) async fn put_due(&self, name: &str, dues: &[u64]) {
        for chunk in dues.chunks(FILLED_AT_ONCE) {
            let messages = chunk.iter().map(|&due| {
                let mut body = due.to_string().into_bytes();
                body.resize(BODY_BYTES, b' ');
                Message::new(topic(name), body).at(UnixMillis::new(due))
            });
            for put in self.producer.put_many(messages.collect()).await {
                put.unwrap();
            }
        }
    }

    /// The timer, as a process of its own. It has to be built already, in the same profile.
    pub(crate) async fn timer(&self) -> Running {
        let program = beside_this_program("delayq-timer");
        let mut command = std::process::Command::new(program);
        command.env("DELAYQ__ETCD__ENABLED", "false");
        self.start("delayq-timer", command, "").await
    }

    /// A forwarder with these sinks and routes, as a process of its own: this program.
    pub(crate) async fn forwarder_process(&self, sinks_and_routes: &str) -> Running {
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        command.arg("forward");
        self.start("delayq-forwarder", command, sinks_and_routes).await
    }

    async fn start(&self, name: &str, mut command: std::process::Command, more: &str) -> Running {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("delayq.toml");
        let text = format!(
            "[deployment]\nnamespace = \"{}\"\nshards = {}\n\n[redis]\nurl = \"{}\"\n\n[admin]\nlisten = \"\"\n\n{more}",
            self.client.namespace(),
            self.client.shards(),
            self.redis.url.expose(),
        );
        std::fs::write(&path, text).unwrap();
        command.arg(&path);
        let mut process = Process::spawn(name, command);
        process.wait_for_line("started", SHORT).await;
        Running { process, _folder: folder }
    }

    /// How many messages of a topic are not over.
    pub(crate) async fn pending(&self, name: &str) -> u64 {
        self.admin.count(&topic(name)).await.unwrap().pending()
    }
}

/// A program of the workspace in the folder above this one's.
fn beside_this_program(name: &str) -> PathBuf {
    let this = std::env::current_exe().unwrap();
    let found = this.ancestors().skip(1).map(|folder| folder.join(name)).find(|path| path.is_file());
    found.unwrap_or_else(|| panic!("{name} is not built: cargo build --release -p {name}"))
}

/// The value of the metric whose line begins so; 0 where there is none yet.
pub(crate) fn metric(metrics: &Metrics, start: &str) -> f64 {
    let text = metrics.encode();
    let line = text.lines().find(|line| line.starts_with(start));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0.0)
}
