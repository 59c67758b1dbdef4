//! Every sink against its real server, and the pipeline around the sinks.
//!
//! The heavy sinks need their features: `cargo test -p delayq-forwarder --features all-sinks`.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod cluster;
mod conformance;
mod file;
mod kafka;
#[cfg(feature = "kafka")]
mod kafka;
mod killed;
mod killed;
mod lateness;
mod nats;
#[cfg(feature = "nats")]
mod nats;
mod nodes;
mod nodes;
mod pipeline;
mod pipeline;
mod polling;
mod polling;
mod rabbitmq;
#[cfg(feature = "rabbitmq")]
mod rabbitmq;
mod ready;
mod ready;
mod redis_list;
mod redis_list;
mod redis_stream;
mod redis_stream;
mod sharing;
mod sharing;
mod stage;
mod stage;
mod stdout;
mod stdout;
mod steps;
mod steps;
mod traced;
mod traced;
mod traces;
#[cfg(feature = "otlp")]
mod traces;
mod webhook;
#[cfg(feature = "webhook")]
mod webhook;
