//! The sink `kafka`: Kafka, with an idempotent producer and acks from all replicas in sync.

#[cfg(feature = "kafka")]
mod check;
mod config;
#[cfg(feature = "kafka")]
mod deliver;
#[cfg(feature = "kafka")]
mod encode;
#[cfg(feature = "kafka")]
mod reports;

pub use config::KafkaConfig;
#[cfg(feature = "kafka")]
pub(crate) use deliver::KafkaSink;
