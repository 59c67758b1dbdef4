//! A fleet of members against a real etcd: each shard always has a worker, and in the end only one.

// A test that cannot continue ends by panicking, in its helpers too.
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
mod model;
mod process;
mod scope;
mod security;
