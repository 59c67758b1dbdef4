//! Failovers and restarts under load: nothing that was answered is lost, and messages flow again.
//!
//! `make test-failovers` runs the long form of [`confirmed`].

#![allow(clippy::unwrap_used, reason = "all of it is tests, the functions that they share included")]

mod cluster;
mod confirmed;
mod load;
mod stream;
