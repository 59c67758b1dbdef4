//! The kinds of sinks, each in a folder with the same files: config, check, encode, deliver, tests.
//!
//! The configuration of every kind is always there, so that it is checked alike in every build; the client of a
//! heavy one only with its cargo feature.

mod config;
mod file;
mod kafka;
mod kind;
mod nats;
mod rabbitmq;
mod redis_link;
mod redis_list;
mod redis_stream;
mod several;
mod stdout;
mod webhook;

pub use config::SinkConfig;
pub use file::FileConfig;
pub use kafka::KafkaConfig;
pub use kind::Kind;
pub use nats::{NatsConfig, NatsMode};
pub use rabbitmq::RabbitmqConfig;
pub use redis_list::{Element, End, RedisListConfig};
pub use redis_stream::RedisStreamConfig;
pub use stdout::StdoutConfig;
pub use webhook::WebhookConfig;

use crate::sink::Sink;
use delayq_service::config::RedisConfig;
use std::sync::Arc;

/// Makes the sinks of one forwarder.
pub(crate) struct Maker<'r> {
    redis: &'r RedisConfig,
    #[cfg(feature = "webhook")]
    hosts: webhook::Hosts,
}

// === impl Maker ===

impl<'r> Maker<'r> {
    /// For sinks that deliver into `redis` unless they name another.
    pub(crate) fn new(redis: &'r RedisConfig) -> Self {
        Self {
            redis,
            #[cfg(feature = "webhook")]
            hosts: webhook::Hosts::default(),
        }
    }

    /// Makes a sink; one of several kinds delivers to all of them. Nothing is connected yet.
    ///
    /// # Errors
    /// Why it cannot be made as it is configured, in a sentence.
    pub(crate) fn make(&mut self, config: &SinkConfig) -> Result<Arc<dyn Sink>, String> {
        let sinks = config.kinds().into_iter().map(|kind| self.make_one(kind, config));
        let mut sinks = sinks.collect::<Result<Vec<_>, _>>()?;
        match sinks.len() {
            0 => Err("it has no kind".to_owned()),
            1 => Ok(sinks.remove(0)),
            _ => Ok(Arc::new(several::SeveralSink::new(sinks))),
        }
    }

    fn make_one(&mut self, kind: Kind, config: &SinkConfig) -> Result<Arc<dyn Sink>, String> {
        let missing = || format!("it has no table [{kind}]");
        let timeout = *config.timeout;
        Ok(match kind {
            Kind::File => Arc::new(file::FileSink::new(config.file.clone().ok_or_else(missing)?)),
            Kind::Stdout => Arc::new(stdout::StdoutSink),
            Kind::RedisStream => {
                let stream = config.redis_stream.clone().ok_or_else(missing)?;
                Arc::new(redis_stream::RedisStreamSink::new(stream, self.redis, timeout)?)
            }
            Kind::RedisList => {
                let list = config.redis_list.clone().ok_or_else(missing)?;
                Arc::new(redis_list::RedisListSink::new(list, self.redis, timeout)?)
            }
            #[cfg(feature = "webhook")]
            Kind::Webhook => {
                let webhook = config.webhook.clone().ok_or_else(missing)?;
                Arc::new(webhook::WebhookSink::new(webhook, timeout, &mut self.hosts)?)
            }
            #[cfg(feature = "rabbitmq")]
            Kind::Rabbitmq => {
                let rabbitmq = config.rabbitmq.clone().ok_or_else(missing)?;
                Arc::new(rabbitmq::RabbitmqSink::new(rabbitmq, timeout))
            }
            #[cfg(feature = "nats")]
            Kind::Nats => {
                let nats = config.nats.clone().ok_or_else(missing)?;
                Arc::new(nats::NatsSink::new(nats, timeout))
            }
            #[cfg(feature = "kafka")]
            Kind::Kafka => {
                let kafka = config.kafka.clone().ok_or_else(missing)?;
                Arc::new(kafka::KafkaSink::new(kafka, timeout)?)
            }
            #[allow(unreachable_patterns, reason = "with every feature there is no other kind")]
            other => {
                return Err(format!(
                    "this program was built without the sink {other}: build with --features {other}"
                ));
            }
        })
    }
}
