//! A benchmark's deployment: shards in a Redis, puts, a pump and a forwarder.

use delayq::{Admin, Client, Message, Namespace, Producer, Topic};
use delayq_forwarder::{Deps, Forwarder, RouteConfig, SinkConfig, build};
use delayq_service::config::RedisConfig;
use delayq_service::{Metrics, Readiness, Traces};
use delayq_tests::deployment::{created, settings};
use delayq_tests::redis_server::SharedRedis;
use delayq_tests::shared::namespace;
use std::collections::BTreeMap;

pub(crate) const BODY_BYTES: usize = 200;
const FILLED_AT_ONCE: usize = 8000;

pub(crate) struct Deployment {
    pub(crate) client: Client,
    admin: Admin,
    producer: Producer,
    redis: RedisConfig,
}

pub(crate) fn body(n: usize) -> Vec<u8> {
    let mut body = format!("{{\"n\":{n}}}").into_bytes();
    body.resize(BODY_BYTES, b' ');
    body
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

// === impl Deployment ===

impl Deployment {
    pub(crate) async fn new(server: &SharedRedis, shards: u16) -> Self {
        let own = settings(server.url(), shards).namespace(Namespace::new(namespace()).unwrap());
        let (client, admin, producer) = created(own).await;
        let redis = RedisConfig { url: server.url().parse().unwrap(), ..RedisConfig::default() };
        Self { client, admin, producer, redis }
    }

    pub(crate) async fn fill(&self, name: &str, count: usize) {
        let numbers: Vec<usize> = (0..count).collect();
        for chunk in numbers.chunks(FILLED_AT_ONCE) {
            let messages = chunk.iter().map(|&n| Message::new(topic(name), body(n))).collect();
            for put in self.producer.put_many(messages).await {
                put.unwrap();
            }
        }
    }

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

    pub(crate) async fn pending(&self, name: &str) -> u64 {
        self.admin.topic(&topic(name)).count().await.unwrap().pending()
    }
}

pub(crate) fn metric(metrics: &Metrics, start: &str) -> f64 {
    let text = metrics.encode();
    let line = text.lines().find(|line| line.starts_with(start));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0.0)
}
