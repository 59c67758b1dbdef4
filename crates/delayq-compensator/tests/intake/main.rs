//! The intakes against real brokers: every published record becomes exactly one message by its id, despite
//! any death in between.
#![cfg(all(feature = "intake-kafka", feature = "intake-nats", feature = "intake-rabbitmq"))]
#![allow(clippy::unwrap_used, reason = "all of it is tests, the functions that they share included")]

mod conformance;
mod guide;
mod kafka;
mod look;
mod nats;
mod rabbitmq;
mod stage;
mod stress;
