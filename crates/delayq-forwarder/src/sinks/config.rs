//! `[sinks.NAME]`: what every sink has, and one table for each kind.

use super::{
    FileConfig, KafkaConfig, Kind, NatsConfig, RabbitmqConfig, RedisListConfig, RedisStreamConfig,
    StdoutConfig, WebhookConfig,
};
use crate::encoding::Encoding;
use delayq_service::config::{ByteSize, Faults, HumanDuration, Section};
use serde::{Deserialize, Serialize};

/// `[sinks.NAME]`: one server that messages are delivered to: a table with the name of its kind.
/// With tables of several kinds every message goes to all of them, and is delivered when all have confirmed it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SinkConfig {
    /// The most messages on their way to one destination: those that a killed forwarder repeats. As many only while it takes
    /// them in a quarter of `timeout`. 1 to 65,536; default 8192.
    pub in_flight: u32,
    /// The most bytes of payloads on their way to one destination. 1 MiB to 4 GiB; default 64 MiB. Each shard that is asked
    /// may exceed it by one message.
    pub in_flight_bytes: ByteSize,
    /// The most messages in one call of the sink. 1 to 500; default 256.
    pub batch: u16,
    /// How long a message may wait for its confirm before it counts as not delivered, and before that for its turn at a
    /// destination that takes few at a time. 100 ms to 10 m; default 10 s.
    pub timeout: HumanDuration,
    /// What a delivery looks like: `plain`, `cloudevents-binary` or `cloudevents-structured`; default plain.
    pub encoding: Encoding,
    /// Whether the forwarder refuses to start while the server cannot be reached; default true. With false its
    /// messages wait, and it is looked at until it is there.
    pub required: bool,
    /// NDJSON files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<FileConfig>,
    /// NDJSON on standard output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdout: Option<StdoutConfig>,
    /// Redis Streams.
    #[serde(rename = "redis-stream", skip_serializing_if = "Option::is_none")]
    pub redis_stream: Option<RedisStreamConfig>,
    /// Redis lists.
    #[serde(rename = "redis-list", skip_serializing_if = "Option::is_none")]
    pub redis_list: Option<RedisListConfig>,
    /// HTTP endpoints.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook: Option<WebhookConfig>,
    /// RabbitMQ, and other brokers of AMQP 0-9-1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rabbitmq: Option<RabbitmqConfig>,
    /// NATS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nats: Option<NatsConfig>,
    /// Kafka.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kafka: Option<KafkaConfig>,
}

// === impl SinkConfig ===

impl SinkConfig {
    /// The kinds it has tables of.
    pub(crate) fn kinds(&self) -> Vec<Kind> {
        let all = [
            (self.file.is_some(), Kind::File),
            (self.stdout.is_some(), Kind::Stdout),
            (self.redis_stream.is_some(), Kind::RedisStream),
            (self.redis_list.is_some(), Kind::RedisList),
            (self.webhook.is_some(), Kind::Webhook),
            (self.rabbitmq.is_some(), Kind::Rabbitmq),
            (self.nats.is_some(), Kind::Nats),
            (self.kafka.is_some(), Kind::Kafka),
        ];
        all.into_iter().filter_map(|(there, kind)| there.then_some(kind)).collect()
    }

    /// Its kind, the first of several; `None`: it has none, and is not valid.
    #[must_use]
    pub fn kind(&self) -> Option<Kind> {
        self.kinds().first().copied()
    }
}

impl Default for SinkConfig {
    fn default() -> Self {
        Self {
            in_flight: 8192,
            in_flight_bytes: ByteSize::from_mib(64),
            batch: 256,
            timeout: HumanDuration::from_secs(10),
            encoding: Encoding::Plain,
            required: true,
            file: None,
            stdout: None,
            redis_stream: None,
            redis_list: None,
            webhook: None,
            rabbitmq: None,
            nats: None,
            kafka: None,
        }
    }
}

impl Section for SinkConfig {
    fn validate(&self, at: &mut Faults) {
        if self.kinds().is_empty() {
            let message = format!("a sink needs a table with the name of its kind: {}", Kind::list());
            at.refuse("kind", message);
        }
        at.range("in_flight", &self.in_flight, 1..=65_536);
        at.range("in_flight_bytes", &self.in_flight_bytes, ByteSize::from_mib(1)..=ByteSize::from_gib(4));
        at.range("batch", &self.batch, 1..=500);
        at.range("timeout", &self.timeout, HumanDuration::from_millis(100)..=HumanDuration::from_secs(600));
        if let Some(file) = &self.file {
            at.section("file", file);
        }
        if let Some(stream) = &self.redis_stream {
            at.section("redis-stream", stream);
        }
        if let Some(list) = &self.redis_list {
            at.section("redis-list", list);
        }
        if let Some(webhook) = &self.webhook {
            at.section("webhook", webhook);
        }
        if let Some(rabbitmq) = &self.rabbitmq {
            at.section("rabbitmq", rabbitmq);
        }
        if let Some(nats) = &self.nats {
            at.section("nats", nats);
        }
        if let Some(kafka) = &self.kafka {
            at.section("kafka", kafka);
        }
    }
}
