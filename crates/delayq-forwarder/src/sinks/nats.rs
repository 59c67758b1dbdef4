//! The sink `nats`: NATS JetStream with acks, or core NATS at most once.

#[cfg(feature = "nats")]
mod check;
mod config;
#[cfg(feature = "nats")]
mod deliver;
#[cfg(feature = "nats")]
mod encode;

pub use config::{NatsConfig, NatsMode};
#[cfg(feature = "nats")]
pub(crate) use deliver::NatsSink;
