//! A deployment for a single test: shards in the shared Redis, a pump, and a forwarder that can be stopped.

use delayq::admin::{GroupFailed, ListState, Numbers, Policy, TimeRange};
use delayq::protocol::{Claimed, Owner};
use delayq::{
    Admin, CancelOutcome, Client, Due, Message, MessageId, Namespace, Producer, PutOutcome, Reschedule,
    RescheduleOutcome, Settings, Target, Topic, UnixMillis,
};
use delayq_forwarder::{Deps, ForwarderConfig, RouteConfig, SinkConfig, build};
use delayq_service::config::{HumanDuration, RedisConfig};
use delayq_service::{Fault, Metrics, Readiness, Shutdown, Traces, install_tls};
use delayq_tests::deadline::{LONG, wait_until, within};
use delayq_tests::deployment::{created, settings};
use delayq_tests::history::{Answer, Event, History, sha256_hex};
use delayq_tests::invariants::{Permit, check};
use delayq_tests::shared;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

pub(crate) struct Stage {
    pub(crate) client: Client,
    admin: Admin,
    pub(crate) namespace: String,
    pub(crate) producer: Producer,
    pub(crate) redis: RedisConfig,
    pub(crate) history: Arc<History>,
    pump: tokio::task::JoinHandle<()>,
}

pub(crate) struct Running {
    pub(crate) metrics: Metrics,
    pub(crate) readiness: Readiness,
    shutdown: Shutdown,
    task: tokio::task::JoinHandle<Result<(), Fault>>,
}

pub(crate) fn topic(name: &str) -> Topic {
    Topic::new(name).unwrap()
}

pub(crate) fn route(topic: &str, sink: &str, to: &str) -> RouteConfig {
    RouteConfig {
        topic: topic.parse().unwrap(),
        sink: sink.to_owned(),
        to: Some(to.parse().unwrap()),
        ..RouteConfig::default()
    }
}

// === impl Stage ===

impl Stage {
    pub(crate) async fn new() -> Self {
        install_tls();
        Self::at(shared::redis_url().await).await
    }

    pub(crate) async fn at(url: &str) -> Self {
        let mut stage = Self::of(of_namespace(&shared::namespace(), url)).await;
        stage.redis.url = url.parse().unwrap();
        stage
    }

    pub(crate) async fn of(settings: Settings) -> Self {
        let namespace = settings.namespace.to_string();
        let (client, admin, producer) = created(settings).await;
        let redis = RedisConfig::default();
        let pump = tokio::spawn(pump(client.clone()));
        Self { client, admin, namespace, producer, redis, history: Arc::default(), pump }
    }

    pub(crate) fn client_at(&self, url: &str) -> Client {
        Client::new(of_namespace(&self.namespace, url))
    }

    /// Puts messages due at once, with bodies of this size, under ids from `first` on.
    pub(crate) async fn put(&self, name: &str, first: usize, count: usize, size: usize) {
        let bodies = (first..first + count).map(|n| (n.to_string(), body(n, size))).collect();
        self.put_bodies(name, bodies).await;
    }

    pub(crate) async fn put_bodies(&self, name: &str, bodies: Vec<(String, Vec<u8>)>) {
        let messages = bodies.iter().map(|(id, body)| {
            Message::new(topic(name), body.clone()).id(id.clone()).unwrap().header("traceparent", "00-trace")
        });
        let answers = self.producer.put_many(messages.collect()).await;
        for (answer, (id, body)) in answers.into_iter().zip(&bodies) {
            // Due when Redis accepted the put.
            self.history.put(id, due(&answer.unwrap().outcome).get(), body, Answer::Ok);
        }
    }

    /// Puts messages with these numbers into each group, due at once, the first of each group first, under ids such as `2-07`.
    pub(crate) async fn put_groups(&self, name: &str, groups: usize, numbers: Range<usize>) {
        let numbers = numbers.flat_map(|n| (0..groups).map(move |group| (group, n)));
        let message = |(group, n): (usize, usize)| {
            let message = Message::new(topic(name), body(n, 100)).id(format!("{group}-{n:02}")).unwrap();
            message.group(group.to_string()).unwrap()
        };
        for answer in self.producer.put_many(numbers.map(message).collect()).await {
            assert!(answer.unwrap().outcome.is_accepted());
        }
    }

    pub(crate) async fn order_groups_strictly(&self, name: &str) {
        let policy =
            Policy { group_in_flight: Some(1), group_failed: Some(GroupFailed::Block), ..Policy::default() };
        self.admin.topic(&topic(name)).set_policy(&policy).await.unwrap();
    }

    pub(crate) async fn put_delayed(&self, name: &str, first: usize, count: usize, delay: Duration) {
        let message =
            |n: usize| Message::new(topic(name), body(n, 100)).id(n.to_string()).unwrap().after(delay);
        let answers = self.producer.put_many((first..first + count).map(message).collect()).await;
        for (answer, n) in answers.into_iter().zip(first..) {
            let due = due(&answer.unwrap().outcome).get();
            self.history.put(&n.to_string(), due, &body(n, 100), Answer::Ok);
        }
        let large = Message::new(topic(name), vec![b'x'; 2 << 20]).id(format!("{name}-large")).unwrap();
        assert!(self.producer.put(large).await.is_err());
        self.history.put(&format!("{name}-large"), 0, b"", Answer::Refused);
    }

    pub(crate) async fn cancel(&self, name: &str, which: std::ops::Range<usize>) -> usize {
        let targets: Vec<Target> = which.clone().map(target).collect();
        let answers = self.producer.cancel_many(&topic(name), &targets).await;
        let mut count = 0;
        for (answer, n) in answers.into_iter().zip(which) {
            let in_time = answer.unwrap() == CancelOutcome::Cancelled;
            count += usize::from(in_time);
            self.history.cancel(&n.to_string(), if in_time { Answer::Ok } else { Answer::Refused });
        }
        count
    }

    pub(crate) async fn reschedule(&self, name: &str, which: std::ops::Range<usize>, delay: Duration) {
        let to = Reschedule::To(Due::After(delay));
        let changes: Vec<(Target, Reschedule)> = which.clone().map(|n| (target(n), to)).collect();
        let answers = self.producer.reschedule_many(&topic(name), &changes).await;
        for (answer, n) in answers.into_iter().zip(which) {
            if let RescheduleOutcome::Moved { due, .. } = answer.unwrap() {
                self.history.reschedule(&n.to_string(), due.get(), Answer::Ok);
            }
        }
    }

    pub(crate) async fn numbers(&self, name: &str) -> Numbers {
        self.admin.topic(&topic(name)).count().await.unwrap()
    }

    pub(crate) async fn drained(&self, name: &str) {
        wait_until("an empty topic", LONG, || async { self.numbers(name).await.pending() == 0 }).await;
    }

    pub(crate) async fn dead(&self, name: &str) -> BTreeMap<String, String> {
        let state = ListState::Dead { newest_first: false };
        let dead = self.admin.topic(&topic(name)).list(state, TimeRange::ALL, 10_000).await.unwrap();
        dead.into_iter()
            .map(|one| (one.id.to_string(), one.envelope.unwrap().reason.unwrap_or_default()))
            .collect()
    }

    pub(crate) async fn check(&self, name: &str, seen: Vec<Seen>, permit: &Permit) {
        for (id, reason) in self.dead(name).await {
            self.history.record(Event::Dead { id, reason });
        }
        for one in seen {
            self.history.record(Event::Delivery {
                destination: one.destination,
                id: one.id,
                sha256: sha256_hex(&one.body),
                delivery: one.delivery,
                ready_ms: one.ready_ms,
            });
        }
        let found = check(&self.history, permit);
        assert!(found.is_empty(), "{found:?}");
        assert!(self.numbers(name).await.balances());
    }

    pub(crate) fn settings(
        &self,
        sinks: impl IntoIterator<Item = (&'static str, SinkConfig)>,
        routes: Vec<RouteConfig>,
    ) -> delayq_forwarder::Settings {
        let forwarder = ForwarderConfig {
            poll_interval: HumanDuration::from_millis(500),
            circuit_first_rest: Duration::from_millis(100),
            circuit_longest_rest: HumanDuration::from_millis(500),
            ..ForwarderConfig::default()
        };
        let sinks = sinks.into_iter().map(|(name, sink)| (name.to_owned(), sink)).collect();
        delayq_forwarder::Settings { forwarder, sinks, routes, ..Default::default() }
    }

    pub(crate) async fn look(&self, settings: delayq_forwarder::Settings) -> Result<Vec<String>, Fault> {
        delayq_forwarder::examine(&settings, &self.redis).await
    }

    pub(crate) async fn forward(&self, settings: delayq_forwarder::Settings) -> Result<Running, Fault> {
        self.start(self.client.clone(), settings, Traces::default()).await
    }

    #[cfg(feature = "otlp")]
    pub(crate) async fn forward_traced(
        &self,
        settings: delayq_forwarder::Settings,
        traces: Traces,
    ) -> Result<Running, Fault> {
        self.start(self.client.clone(), settings, traces).await
    }

    pub(crate) async fn forward_through(
        &self,
        client: Client,
        settings: delayq_forwarder::Settings,
    ) -> Result<Running, Fault> {
        self.start(client, settings, Traces::default()).await
    }

    async fn start(
        &self,
        client: Client,
        settings: delayq_forwarder::Settings,
        traces: Traces,
    ) -> Result<Running, Fault> {
        let metrics = Metrics::new();
        let readiness = Readiness::new();
        let deps = Deps {
            client,
            redis: self.redis.clone(),
            metrics: metrics.clone(),
            readiness: readiness.clone(),
            traces,
        };
        let forwarder = build(settings, deps).await?;
        let shutdown = Shutdown::new();
        let task = tokio::spawn(forwarder.run(shutdown.clone()));
        Ok(Running { metrics, readiness, shutdown, task })
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.pump.abort();
    }
}

fn of_namespace(namespace: &str, url: &str) -> Settings {
    settings(url, 4).namespace(Namespace::new(namespace).unwrap())
}

async fn pump(client: Client) {
    let shards: Vec<_> = client.shards().shards().collect();
    let claimed = Owner::new(client.clone()).claim(&shards, "test", Duration::from_secs(600)).await;
    let epochs = claimed.into_iter().map(|claimed| match claimed {
        Ok(Claimed::Mine { epoch, .. }) => Some(epoch),
        other => panic!("the shard is free to be claimed: {other:?}"),
    });
    let owned: Vec<_> = shards.into_iter().zip(epochs).collect();
    let mut every = tokio::time::interval(Duration::from_millis(10));
    loop {
        every.tick().await;
        drop(Owner::new(client.clone()).pump(&owned, 500, None).await);
    }
}

// === impl Running ===

impl Running {
    pub(crate) async fn stop(self) {
        self.shutdown.request();
        within("the forwarder's end", LONG, self.task).await.unwrap().unwrap();
    }

    pub(crate) fn ask_to_stop(&self) {
        self.shutdown.request();
    }

    pub(crate) async fn has_in_flight(&self, sink: &str) {
        let metric = format!("delayq_forwarder_in_flight{{sink=\"{sink}\"}}");
        wait_until("messages on their way", LONG, || async { self.metric(&metric) > 0.0 }).await;
    }

    pub(crate) async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
    }

    pub(crate) fn metric(&self, start: &str) -> f64 {
        let text = self.metrics.encode();
        let line = text.lines().find(|line| line.starts_with(start));
        line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0.0)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) destination: String,
    pub(crate) id: String,
    pub(crate) body: Vec<u8>,
    pub(crate) delivery: u32,
    pub(crate) ready_ms: u64,
}

fn due(outcome: &PutOutcome) -> UnixMillis {
    match outcome {
        PutOutcome::Stored(due) | PutOutcome::Ready(due) => *due,
        other => panic!("the put was not accepted: {other:?}"),
    }
}

fn target(n: usize) -> Target {
    MessageId::own(n.to_string()).unwrap().into()
}

pub(crate) fn body(n: usize, size: usize) -> Vec<u8> {
    let mut body = format!("{{\"n\":{n}}}").into_bytes();
    body.resize(size.max(body.len()), b' ');
    body
}

pub(crate) fn record(destination: &str, line: &str) -> Seen {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    let record: serde_json::Value = serde_json::from_str(line).unwrap();
    let body = match record["payload"].as_str() {
        Some(text) => text.as_bytes().to_vec(),
        None => STANDARD.decode(record["payload_base64"].as_str().unwrap()).unwrap(),
    };
    Seen {
        destination: destination.to_owned(),
        id: record["id"].as_str().unwrap().to_owned(),
        body,
        delivery: u32::try_from(record["delivery"].as_u64().unwrap()).unwrap(),
        ready_ms: record["ready"].as_u64().unwrap(),
    }
}
