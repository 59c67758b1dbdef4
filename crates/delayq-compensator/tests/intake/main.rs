//! The intakes against real brokers: every record becomes exactly one message, despite any death.
#![cfg(all(
    feature = "intake-kafka",
    feature = "intake-nats",
    feature = "intake-rabbitmq",
    feature = "intake-sqs"
))]
#![allow(clippy::unwrap_used, reason = "all of it is tests, the functions that they share included")]

mod conformance;
mod guide;
mod kafka;
mod look;
mod nats;
mod rabbitmq;
mod sqs;
mod stage;
mod stress;
