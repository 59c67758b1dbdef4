//! The client library against a real Redis of any shape.

#![allow(clippy::unwrap_used, reason = "all of it is tests, the functions that they share included")]

mod black_hole;
mod conformance;
mod consumer;
mod dead_letters;
mod dropped;
mod examples;
mod gathered;
mod growth;
mod idle;
mod odd_options;
mod odd_times;
mod pumping;
mod reserved;
mod server;
mod testing;
mod tls;
mod vectors;
mod waiting;
mod worker;
