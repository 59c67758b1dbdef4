//! The intake `kafka`: a topic, read by a consumer group.

mod config;
#[cfg(feature = "intake-kafka")]
mod dead;
#[cfg(feature = "intake-kafka")]
mod group;
#[cfg(feature = "intake-kafka")]
mod look;
#[cfg(feature = "intake-kafka")]
mod offsets;
#[cfg(feature = "intake-kafka")]
mod source;
#[cfg(feature = "intake-kafka")]
mod ticket;

pub use config::KafkaIntakeConfig;
#[cfg(feature = "intake-kafka")]
pub(crate) use look::look;
#[cfg(feature = "intake-kafka")]
pub(crate) use source::KafkaSource;
