//! The sink `nats`: NATS JetStream, with acks.

#[cfg(feature = "nats")]
mod check;
mod config;
#[cfg(feature = "nats")]
mod deliver;
#[cfg(feature = "nats")]
mod encode;

pub use config::NatsConfig;
#[cfg(feature = "nats")]
pub(crate) use deliver::NatsSink;
