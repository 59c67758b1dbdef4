//! A fleet of members against a real etcd: one claim per shard at any time, and in the end every shard owned.

// A test that cannot go on ends by panicking, in its helpers too.
#![allow(clippy::unwrap_used)]
#![allow(clippy::disallowed_methods, reason = "two variables steer the tests themselves")]

mod breakage;
mod churn;
mod deleted;
mod drained;
mod fleet;
mod growth;
mod handover;
mod late;
mod process;
mod reader;
mod scope;
mod security;
