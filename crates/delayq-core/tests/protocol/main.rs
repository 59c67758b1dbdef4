//! The protocol against a real Redis: every script, every promise.

#![allow(clippy::unwrap_used, reason = "all of it is tests, the functions that they share included")]

mod action;
mod arguments;
mod bare_shard;
mod claims;
mod commands;
mod compare;
mod drained;
mod edges;
mod expiry;
mod headers;
mod life;
mod model;
mod model_test;
mod mutants;
mod poison;
mod power_cut;
mod races;
mod random_run;
mod refusals;
mod repeats;
mod slots;
mod snapshot;
mod stuck;
