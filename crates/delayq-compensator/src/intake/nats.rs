//! The intake `nats`: a stream of JetStream, read through a durable consumer.

mod config;
#[cfg(feature = "intake-nats")]
mod consumer;
#[cfg(feature = "intake-nats")]
mod dead;
#[cfg(feature = "intake-nats")]
mod look;
#[cfg(feature = "intake-nats")]
mod outstanding;
#[cfg(feature = "intake-nats")]
mod record;
#[cfg(feature = "intake-nats")]
mod sequences;
#[cfg(feature = "intake-nats")]
mod source;
#[cfg(feature = "intake-nats")]
mod ticket;
#[cfg(feature = "intake-nats")]
mod turn;
#[cfg(feature = "intake-nats")]
mod unreadable;

pub use config::NatsIntakeConfig;
#[cfg(feature = "intake-nats")]
pub(crate) use look::look;
#[cfg(feature = "intake-nats")]
pub(crate) use source::NatsSource;

/// Maximum time for an answer of the server.
#[cfg(feature = "intake-nats")]
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(5);
