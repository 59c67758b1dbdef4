//! A deployment that gets more shards, against a real Redis.

#![allow(clippy::unwrap_used, reason = "all of it is tests, the functions that they share included")]

mod after;
mod begun;
mod followed;
mod groups;
mod grown;
mod scripts;
mod spread;
