//! The protocol against a real Redis: every script, every promise.

#![allow(clippy::unwrap_used, reason = "all of it is tests, the functions that they share included")]

mod action;
mod bare_shard;
mod compare;
mod life;
mod model;
mod model_test;
mod mutants;
mod poison;
mod random_run;
mod snapshot;
