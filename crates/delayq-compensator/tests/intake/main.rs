//! The intakes against real brokers: what is published becomes exactly one message by its id, whatever dies in between.
#![cfg(feature = "intake-kafka")]
#![allow(clippy::unwrap_used, reason = "all of it is tests, the functions that they share included")]

mod conformance;
mod kafka;
mod stage;
