//! The harness: real servers, broken networks, stepped clocks and the checker of a run's history.
//!
//! Everything here panics with a sentence instead of returning an error: a server that does not start is a failed
//! test, and the sentence names what was waited for, for how long, and what the process printed last.
//!
//! A server belongs to whoever started it and ends with it. What a test process leaves behind, whatever ends it, is
//! cleared by the [`folder`] module's janitor.

pub mod binary;
pub mod certs;
pub mod clock_shim;
pub mod deadline;
pub mod environment;
pub mod etcd_server;
pub mod folder;
pub mod history;
pub mod invariants;
pub mod kafka_listener;
pub mod kafka_server;
mod kafka_topics;
pub mod nats_server;
pub mod ports;
pub mod process;
pub mod proxy;
pub mod rabbitmq_server;
pub mod redis_monitor;
pub mod redis_server;
pub mod resp;
pub mod shared;
pub mod small_disk;
pub mod stall;
pub mod timing;
pub mod tripwire;
