//! The tests of the whole: real programs, real servers, broken networks. One binary, so that servers can be shared.

#![allow(clippy::unwrap_used, reason = "all of it is tests, the functions that they share included")]

mod cli;
mod documented;
mod harness;
mod private;
mod setup;
mod storm;
