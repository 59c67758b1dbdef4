//! The kinds of sinks, defined by one table.
//!
//! The configuration of every kind is always compiled, so that every build validates it alike; the client of a heavy
//! kind needs its cargo feature.

use super::file::FileSink;
#[cfg(feature = "kafka")]
use super::kafka::KafkaSink;
#[cfg(feature = "nats")]
use super::nats::NatsSink;
#[cfg(feature = "rabbitmq")]
use super::rabbitmq::RabbitmqSink;
use super::redis::RedisSink;
#[cfg(feature = "sqs")]
use super::sqs::SqsSink;
use super::stdout::StdoutSink;
#[cfg(feature = "webhook")]
use super::webhook::WebhookSink;
use super::{
    FileConfig, KafkaConfig, NatsConfig, RabbitmqConfig, RedisSinkConfig, StdoutConfig, WebhookConfig,
};
use crate::encoding::Encoding;
use crate::sink::Sink;
use delayq_service::brokers::SqsAccess;
use delayq_service::config::{ByteSize, Faults, HumanDuration, RedisConfig, Section};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Expands the table into configuration words, sink sections, and constructors.
macro_rules! kinds {
    ($($(#[doc = $doc:literal])* $kind:ident, $word:literal, $table:ident: $config:ty, to: $to:literal,
        event_prefix: $event_prefix:literal,
        sink: $(#[feature = $feature:literal])? |$made_of:pat_param, $maker:pat_param| $sink:expr;)*) => {
        /// The kinds of sinks.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Kind {
            $($(#[doc = $doc])* $kind,)*
        }

        impl Kind {
            /// Every kind.
            pub const ALL: [Self; [$($word),*].len()] = [$(Self::$kind),*];

            /// The word in the configuration.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self { $(Self::$kind => $word,)* }
            }

            /// The destination of a route without a destination.
            #[must_use]
            pub const fn default_to(self) -> &'static str {
                match self { $(Self::$kind => $to,)* }
            }

            /// The prefix of CloudEvents headers in the binding of the kind's protocol.
            #[must_use]
            pub const fn event_prefix(self) -> &'static str {
                match self { $(Self::$kind => $event_prefix,)* }
            }
        }

        /// `[sinks.NAME]`: one server that receives messages, with a table named after its kind.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct SinkConfig {
            /// Maximum messages in flight to one destination; a killed forwarder repeats at most this many. Only used
            /// in full while the destination confirms all within a quarter of `timeout`. 1 to 65,536; default 8192.
            pub in_flight: u32,
            /// Maximum payload bytes in flight to one destination. 1 MiB to 4 GiB; default 64 MiB. Each requested shard
            /// may exceed the limit by one message.
            pub in_flight_bytes: ByteSize,
            /// Maximum number of messages in one call of the sink. 1 to 500; default 256.
            pub batch: u16,
            /// How long a message may wait for its confirm, and before that for its turn at a destination that handles
            /// few at a time, until the delivery counts as failed. 100 ms to 10 m; default 10 s.
            pub timeout: HumanDuration,
            /// The form of a delivery: `plain`, `cloudevents-binary` or `cloudevents-structured`; default plain.
            pub encoding: Encoding,
            /// Whether an unreachable server keeps the forwarder from starting; default true. If false, messages wait,
            /// and the server is checked until reachable.
            pub required: bool,
            $(
                $(#[doc = $doc])*
                #[serde(rename = $word, skip_serializing_if = "Option::is_none")]
                pub $table: Option<$config>,
            )*
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
                    $($table: None,)*
                }
            }
        }

        impl SinkConfig {
            /// The kinds with a table: exactly one if valid.
            fn kinds(&self) -> Vec<Kind> {
                [$(self.$table.as_ref().map(|_| Kind::$kind)),*].into_iter().flatten().collect()
            }

            fn validate_tables(&self, at: &mut Faults) {
                $(if let Some(table) = &self.$table {
                    at.section($word, table);
                })*
            }
        }

        impl Maker<'_> {
            fn make_one(&mut self, kind: Kind, config: &SinkConfig) -> Result<Arc<dyn Sink>, String> {
                match kind {
                    $(
                        $(#[cfg(feature = $feature)])?
                        Kind::$kind => {
                            let table = config.$table.clone().ok_or_else(|| format!("no table [{kind}]"))?;
                            let ($made_of, $maker) = (table, self);
                            Ok(Arc::new($sink))
                        }
                        $(
                            #[cfg(not(feature = $feature))]
                            Kind::$kind => Err(format!(
                                "this program was built without the sink {kind}: build with --features {}", $feature
                            )),
                        )?
                    )*
                }
            }
        }
    };
}

kinds! {
    /// NDJSON files.
    File, "file", file: FileConfig, to: "deliveries.ndjson", event_prefix: "ce-",
        sink: |config, _| FileSink::new(config);
    /// NDJSON on standard output.
    Stdout, "stdout", stdout: StdoutConfig, to: "-", event_prefix: "ce-",
        sink: |_, _| StdoutSink;
    /// Redis Streams and lists.
    Redis, "redis", redis: RedisSinkConfig, to: "{topic}", event_prefix: "ce-",
        sink: |config, maker| RedisSink::new(config, maker.redis, maker.timeout)?;
    /// HTTP endpoints.
    Webhook, "webhook", webhook: WebhookConfig, to: "", event_prefix: "ce-",
        sink: #[feature = "webhook"] |config, maker| WebhookSink::new(config, maker.timeout)?;
    /// RabbitMQ and other brokers of AMQP 0-9-1.
    Rabbitmq, "rabbitmq", rabbitmq: RabbitmqConfig, to: "{topic}", event_prefix: "cloudEvents:",
        sink: #[feature = "rabbitmq"] |config, maker| RabbitmqSink::new(config, maker.timeout);
    /// NATS JetStream.
    Nats, "nats", nats: NatsConfig, to: "{topic}", event_prefix: "ce-",
        sink: #[feature = "nats"] |config, maker| NatsSink::new(config, maker.timeout);
    /// Kafka.
    Kafka, "kafka", kafka: KafkaConfig, to: "{topic}", event_prefix: "ce_",
        sink: #[feature = "kafka"] |config, maker| KafkaSink::new(config, maker.timeout)?;
    /// Amazon SQS and other servers of its protocol.
    Sqs, "sqs", sqs: SqsAccess, to: "{topic}", event_prefix: "ce-",
        sink: #[feature = "sqs"] |config, maker| SqsSink::new(config, maker.timeout)?;
}

pub(crate) struct Maker<'r> {
    redis: &'r RedisConfig,
    timeout: Duration,
}

// === impl Kind ===

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

// === impl SinkConfig ===

impl SinkConfig {
    /// The kind; `None` if invalid: no kind, or several.
    #[must_use]
    pub fn kind(&self) -> Option<Kind> {
        match self.kinds()[..] {
            [kind] => Some(kind),
            _ => None,
        }
    }
}

impl Section for SinkConfig {
    fn validate(&self, at: &mut Faults) {
        match &self.kinds()[..] {
            [_] => {}
            [] => {
                let known = Kind::ALL.map(Kind::word).join(", ");
                at.refuse("kind", format!("a sink needs a table named after its kind: {known}"));
            }
            several => {
                let words = several.iter().map(|kind| kind.word()).collect::<Vec<_>>().join(", ");
                at.refuse(
                    "kind",
                    format!(
                        "a sink has a single kind, but tables of {words} are present: define a sink for each"
                    ),
                );
            }
        }
        at.range("in_flight", &self.in_flight, 1..=65_536);
        at.range("in_flight_bytes", &self.in_flight_bytes, ByteSize::from_mib(1)..=ByteSize::from_gib(4));
        at.range("batch", &self.batch, 1..=500);
        at.range("timeout", &self.timeout, HumanDuration::from_millis(100)..=HumanDuration::from_secs(600));
        self.validate_tables(at);
    }
}

// === impl Maker ===

impl<'r> Maker<'r> {
    pub(crate) fn new(redis: &'r RedisConfig) -> Self {
        Self { redis, timeout: Duration::ZERO }
    }

    /// Creates a sink without connecting.
    ///
    /// # Errors
    /// Why the configured sink cannot be created, in a sentence.
    pub(crate) fn make(&mut self, config: &SinkConfig) -> Result<Arc<dyn Sink>, String> {
        self.timeout = *config.timeout;
        self.make_one(config.kind().ok_or("it has no kind, or several")?, config)
    }
}
