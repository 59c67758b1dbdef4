//! The tests of the harness and of the repository's own claims. One binary, so that the tests can share servers.

#![allow(clippy::unwrap_used, reason = "all of it is tests, the functions that they share included")]

mod alerts;
mod chart;
mod clients;
mod documented;
mod guides;
mod harness;
mod links;
mod metrics;
mod protoc;
mod published;
mod reference;
mod secrets;
mod setup;
mod shell;
mod structure;
mod words;
