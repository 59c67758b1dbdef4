//! What every process has: configuration, admin endpoint, signals and exit codes, and the fitness of its Redis.

#![allow(clippy::unwrap_used, reason = "all of it is tests, the functions that they share included")]

mod admin;
mod codes;
mod config;
mod fitness;
mod hostile;
mod process;
