//! Every sink against its real server, and the pipeline around the sinks.
//!
//! Features select the sinks with heavy clients: `cargo test -p delayq-forwarder --features all-sinks`.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod cluster;
mod conformance;
mod file;
#[cfg(feature = "kafka")]
mod kafka;
mod killed;
mod lateness;
#[cfg(feature = "nats")]
mod nats;
mod nodes;
mod pipeline;
mod polling;
#[cfg(feature = "rabbitmq")]
mod rabbitmq;
mod ready;
mod redis;
mod sharing;
#[cfg(feature = "sqs")]
mod sqs;
mod stage;
mod start;
mod stdout;
mod steps;
mod traced;
#[cfg(feature = "otlp")]
mod traces;
#[cfg(feature = "webhook")]
mod webhook;
