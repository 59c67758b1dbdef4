//! Every sink against its real server, and the pipeline around the sinks.
//!
//! The heavy sinks need their features: `cargo test -p delayq-forwarder --features all-sinks`.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod classes;
mod cluster;
mod conformance;
mod file;
#[cfg(feature = "kafka")]
mod kafka;
mod killed;
#[cfg(feature = "nats")]
mod nats;
mod nodes;
mod pipeline;
mod polling;
#[cfg(feature = "rabbitmq")]
mod rabbitmq;
mod ready;
mod redis_list;
mod redis_stream;
mod sharing;
mod stage;
mod stdout;
mod steps;
mod traced;
#[cfg(feature = "otlp")]
mod traces;
#[cfg(feature = "webhook")]
mod webhook;
