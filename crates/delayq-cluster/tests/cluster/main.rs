//! A fleet of members against a real etcd: no shard without a worker while its owner lives, and in the end
//! one worker each.

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
