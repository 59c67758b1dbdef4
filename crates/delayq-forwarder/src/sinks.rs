//! The sinks: a folder for each kind, with the same files (config, check, encode, deliver); `kinds.rs` is their table.

mod file;
mod kafka;
mod kinds;
mod nats;
mod rabbitmq;
mod record;
mod redis;
mod sqs;
mod stdout;
mod webhook;

pub use file::FileConfig;
pub use kafka::KafkaConfig;
pub(crate) use kinds::Maker;
pub use kinds::{Kind, SinkConfig};
pub use nats::NatsConfig;
pub use rabbitmq::RabbitmqConfig;
pub use redis::{Element, RedisForm, RedisSinkConfig};
pub use stdout::StdoutConfig;
pub use webhook::WebhookConfig;
