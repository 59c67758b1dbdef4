//! The harness: real servers, broken networks, stepped clocks and the checker of a run's history.
//!
//! The harness panics with a message instead of returning errors: a server that does not start is a failed test. The
//! message names the awaited condition, the time limit, and the last output of the process.
//!
//! A server belongs to the test that started it and ends with that test. The janitor of the [`folder`] module clears
//! leftovers of a test process, however the process ends.

pub mod admin_endpoint;
pub mod binary;
pub mod certs;
pub mod clock_shim;
pub mod content;
pub mod deadline;
pub mod deployment;
pub mod disk_shim;
pub mod environment;
pub mod etcd_server;
pub mod folder;
pub mod generated;
pub mod history;
pub mod invariants;
mod jars;
pub mod kafka_listener;
pub mod kafka_server;
mod kafka_topics;
pub mod last_word;
pub mod lent;
pub mod mariadb_server;
pub mod mutation;
pub mod nats_server;
pub mod outages;
pub mod pgbouncer;
pub mod ports;
pub mod postgres_server;
mod preload;
pub mod process;
pub mod proxy;
pub mod rabbitmq_server;
pub mod redis_cluster;
pub mod redis_monitor;
pub mod redis_nodes;
pub mod redis_server;
pub mod remark;
pub mod resp;
pub mod sentinel;
pub mod sentinel_group;
pub mod shared;
pub mod small_disk;
pub mod sqs_server;
pub mod stall;
pub mod timing;
pub mod tripwire;
