//! Failovers and restarts under load: no answered write is lost, and messages flow again.
//!
//! `make test-failovers` runs the long form of [`confirmed`].

mod cluster;
mod confirmed;
mod load;
mod stream;
