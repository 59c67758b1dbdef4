//! The harness against the real servers, before other tests rely on it.

mod certs;
mod clock_shim;
mod etcd_server;
mod janitor;
mod kafka_server;
mod nats_server;
mod postgres_server;
mod rabbitmq_server;
mod redis_server;
mod shared;
