//! The life of every process: configuration, admin endpoint, signals and exit codes, and the fitness of Redis.

#![allow(clippy::unwrap_used, reason = "all of it is tests, the functions that they share included")]

mod admin;
mod codes;
mod config;
mod fitness;
mod hostile;
mod process;
