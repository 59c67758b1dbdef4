//! The sink `kafka`: an idempotent producer with acks from all in-sync replicas.

#[cfg(feature = "kafka")]
mod check;
mod config;
#[cfg(feature = "kafka")]
mod deliver;
#[cfg(feature = "kafka")]
mod encode;

pub use config::KafkaConfig;
#[cfg(feature = "kafka")]
pub(crate) use deliver::KafkaSink;
