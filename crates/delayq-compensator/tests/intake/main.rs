//! The intakes against real brokers: what is published becomes exactly one message by its id, whatever dies in between.
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
