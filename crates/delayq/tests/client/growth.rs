//! A deployment that gets more shards, against a real Redis.

mod after;
mod begun;
mod deadline;
mod followed;
mod groups;
mod grown;
mod scripts;
mod spread;
