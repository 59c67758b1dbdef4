//! Failovers and restarts under load: nothing that was answered is lost, and messages flow again.
//!
//! `make test-failovers` runs the long form of [`confirmed`].

mod cluster;
mod confirmed;
mod load;
mod stream;
