//! A group of members against a real etcd: one claim per shard at any time, and in the end every shard owned.

// A test that cannot go on ends by panicking, in its helpers too.
#![allow(clippy::unwrap_used)]

mod breakage;
mod etcd;
mod fleet;
mod growth;
mod handover;
mod proxy;
mod reader;
mod security;
