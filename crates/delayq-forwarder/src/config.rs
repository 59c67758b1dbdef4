//! The configuration: `[forwarder]`, `[sinks.*]` and `[[routes]]`.

use crate::{
    circuit::CircuitSettings,
    encode::Encoding,
    pattern::Pattern,
    sinks::{
        FileConfig, KafkaConfig, NatsConfig, RabbitmqConfig, RedisListConfig, RedisStreamConfig,
        StdoutConfig, WebhookConfig,
    },
    template::Template,
};
use delayq_service::{
    ServiceConfig,
    config::{
        AdminConfig, ByteSize, DeploymentConfig, Faults, HumanDuration, LogConfig, RedisConfig, Section,
        ShutdownConfig,
    },
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The whole configuration of `delayq-forwarder`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// `[deployment]`
    pub deployment: DeploymentConfig,
    /// `[redis]`
    pub redis: RedisConfig,
    /// `[admin]`
    pub admin: AdminConfig,
    /// `[log]`
    pub log: LogConfig,
    /// `[shutdown]`
    pub shutdown: ShutdownConfig,
    /// `[forwarder]`
    pub forwarder: ForwarderConfig,
    /// `[sinks.NAME]`
    pub sinks: BTreeMap<String, SinkConfig>,
    /// `[[routes]]`
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<RouteConfig>,
}

/// The sections that make a forwarder, wherever it runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// `[forwarder]`
    pub forwarder: ForwarderConfig,
    /// `[sinks.NAME]`
    pub sinks: BTreeMap<String, SinkConfig>,
    /// `[[routes]]`
    pub routes: Vec<RouteConfig>,
}

/// `[forwarder]`: how messages are reserved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ForwarderConfig {
    /// How long a message is leased, and leased again while its destination works. 1 s to 1 h; default 30 s. A
    /// killed forwarder's messages go out again after this time.
    pub lease: HumanDuration,
    /// How often every shard is looked at without a reason, as the net below the notifications. 100 ms to 1 m;
    /// default 2 s.
    pub look_every: HumanDuration,
    /// The most bytes of payloads in one answer of a shard. 64 KiB to 4 MiB; default 1 MiB.
    pub most_bytes: ByteSize,
    /// Failures in a row, of unclear fault, that open the circuit of a destination. 1 to 1000; default 5.
    pub circuit_failures: u32,
    /// How long a destination rests before the first probe. 10 ms to 1 m; default 500 ms. It doubles with each probe
    /// that fails.
    pub circuit_first_rest: HumanDuration,
    /// The longest rest. At least the first, at most 10 m; default 15 s: a mended destination waits at most so long.
    pub circuit_longest_rest: HumanDuration,
}

/// `[sinks.NAME]`: one server that messages are delivered to: a table with the name of its kind.
/// With tables of several kinds every message goes to all of them, and is delivered when all have confirmed it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SinkConfig {
    /// The most messages on their way to one destination. 1 to 65,536; default 2048.
    pub in_flight: u32,
    /// The most messages in one call of the sink. 1 to 500; default 256.
    pub batch: u16,
    /// How long a message may wait for its confirm before it counts as not delivered. 100 ms to 10 m; default 10 s.
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

/// `[[routes]]`: which topics go where. The first that matches a topic is its route.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouteConfig {
    /// A topic, or a pattern: `?`, `*` within a `/`, `**` across.
    pub topic: String,
    /// The name of a sink.
    pub sink: String,
    /// The destination as a template; unset: what the sink's kind says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// What the destination partitions or orders by, as a template; unset: the group, or the id where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Headers to add, as templates; one whose values are missing is left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
}

/// The kinds of sinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `file`
    File,
    /// `stdout`
    Stdout,
    /// `redis-stream`
    RedisStream,
    /// `redis-list`
    RedisList,
    /// `webhook`
    Webhook,
    /// `rabbitmq`
    Rabbitmq,
    /// `nats`
    Nats,
    /// `kafka`
    Kafka,
}

// === impl Config ===

impl Config {
    /// The sections of the forwarder itself.
    #[must_use]
    pub fn settings(&self) -> Settings {
        Settings { forwarder: self.forwarder.clone(), sinks: self.sinks.clone(), routes: self.routes.clone() }
    }
}

impl Section for Config {
    fn validate(&self, at: &mut Faults) {
        at.section("deployment", &self.deployment);
        at.section("redis", &self.redis);
        at.section("admin", &self.admin);
        at.section("log", &self.log);
        at.section("shutdown", &self.shutdown);
        self.settings().validate(at);
    }
}

impl ServiceConfig for Config {
    fn log(&self) -> &LogConfig {
        &self.log
    }

    fn admin(&self) -> &AdminConfig {
        &self.admin
    }

    fn shutdown(&self) -> &ShutdownConfig {
        &self.shutdown
    }
}

// === impl Settings ===

impl Settings {
    /// Reports what is wrong with the three sections, also between them. For a configuration that holds them.
    pub fn validate(&self, at: &mut Faults) {
        at.section("forwarder", &self.forwarder);
        for (name, sink) in &self.sinks {
            let (key, kind) = (format!("sinks.{name}"), format!("sinks.{name}.kind"));
            if sink.kinds().is_empty() {
                let message = format!("a sink needs a table with the name of its kind: {}", Kind::list());
                at.refuse(&kind, message);
            }
            at.section(&key, sink);
        }
        for (i, route) in self.routes.iter().enumerate() {
            at.item("routes", i, route);
            self.validate_route(at, i, route);
        }
    }

    /// What a route cannot know of itself.
    fn validate_route(&self, at: &mut Faults, i: usize, route: &RouteConfig) {
        if !self.sinks.contains_key(&route.sink) {
            let known: Vec<&str> = self.sinks.keys().map(String::as_str).collect();
            let known = if known.is_empty() { "there are none".to_owned() } else { known.join(", ") };
            let message = format!("there is no [sinks.{}]; known sinks: {known}", route.sink);
            at.refuse(&format!("routes[{i}].sink"), message);
        }
        let Ok(pattern) = Pattern::new(&route.topic) else { return };
        let covering = |earlier: &RouteConfig| Pattern::new(&earlier.topic).is_ok_and(|p| p.covers(&pattern));
        if let Some(first) = self.routes[..i].iter().position(covering) {
            let message = format!(
                "this route never matches: route {} (`{}`) comes first and takes every topic of `{}`",
                first + 1,
                self.routes[first].topic,
                route.topic
            );
            at.refuse(&format!("routes[{i}].topic"), message);
        }
    }
}

// === impl ForwarderConfig ===

impl ForwarderConfig {
    /// The settings of a destination's circuit.
    pub(crate) fn circuit(&self) -> CircuitSettings {
        CircuitSettings {
            failures: self.circuit_failures,
            first_rest: *self.circuit_first_rest,
            longest_rest: *self.circuit_longest_rest,
        }
    }
}

impl Default for ForwarderConfig {
    fn default() -> Self {
        Self {
            lease: HumanDuration::from_secs(30),
            look_every: HumanDuration::from_secs(2),
            most_bytes: ByteSize::from_mib(1),
            circuit_failures: 5,
            circuit_first_rest: HumanDuration::from_millis(500),
            circuit_longest_rest: HumanDuration::from_secs(15),
        }
    }
}

impl Section for ForwarderConfig {
    fn validate(&self, at: &mut Faults) {
        let (ms, secs) = (HumanDuration::from_millis, HumanDuration::from_secs);
        at.range("lease", &self.lease, secs(1)..=secs(3600));
        at.range("look_every", &self.look_every, ms(100)..=secs(60));
        at.range("most_bytes", &self.most_bytes, ByteSize::from_kib(64)..=ByteSize::from_mib(4));
        at.range("circuit_failures", &self.circuit_failures, 1..=1000);
        at.range("circuit_first_rest", &self.circuit_first_rest, ms(10)..=secs(60));
        at.range("circuit_longest_rest", &self.circuit_longest_rest, ms(10)..=secs(600));
        if self.circuit_longest_rest < self.circuit_first_rest {
            at.contradiction(
                &["circuit_longest_rest", "circuit_first_rest"],
                "the longest rest is shorter than the first",
            );
        }
    }
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
            in_flight: 2048,
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
        at.range("in_flight", &self.in_flight, 1..=65_536);
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

// === impl RouteConfig ===

impl Section for RouteConfig {
    fn validate(&self, at: &mut Faults) {
        if let Err(message) = Pattern::new(&self.topic) {
            at.refuse("topic", message);
        }
        for (key, template) in [("to", &self.to), ("key", &self.key)] {
            if let Some(Err(message)) = template.as_deref().map(Template::new) {
                at.refuse(key, message);
            }
        }
        for (name, template) in &self.headers {
            let key = format!("headers.{name}");
            if name.is_empty() || name.len() > 255 || !name.bytes().all(|byte| byte.is_ascii_graphic()) {
                at.refuse(&key, "a header's name is 1 to 255 printable ASCII characters without spaces");
            } else if name.to_ascii_lowercase().starts_with("delayq-") {
                at.refuse(&key, "headers that begin with delayq- are delayq's own");
            }
            if let Err(message) = Template::new(template) {
                at.refuse(&key, message);
            }
        }
    }
}

// === impl Kind ===

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 8] = [
        Self::File,
        Self::Stdout,
        Self::RedisStream,
        Self::RedisList,
        Self::Webhook,
        Self::Rabbitmq,
        Self::Nats,
        Self::Kafka,
    ];

    /// Its word in the configuration.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Stdout => "stdout",
            Self::RedisStream => "redis-stream",
            Self::RedisList => "redis-list",
            Self::Webhook => "webhook",
            Self::Rabbitmq => "rabbitmq",
            Self::Nats => "nats",
            Self::Kafka => "kafka",
        }
    }

    /// The destination of a route that names none.
    #[must_use]
    pub const fn default_to(self) -> &'static str {
        match self {
            Self::File => "deliveries.ndjson",
            Self::Stdout => "-",
            Self::Webhook => "",
            Self::RedisStream | Self::RedisList | Self::Rabbitmq | Self::Nats | Self::Kafka => "{topic}",
        }
    }

    /// What the headers of CloudEvents begin with, as the binding of the kind's protocol says.
    #[must_use]
    pub const fn event_prefix(self) -> &'static str {
        match self {
            Self::Kafka => "ce_",
            Self::Rabbitmq => "cloudEvents:",
            _ => "ce-",
        }
    }

    fn list() -> String {
        Self::ALL.map(Self::word).join(", ")
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.word())
    }
}

#[cfg(test)]
mod tests;
