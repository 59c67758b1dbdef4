//! The timer against real servers: on time, never early, and what each fault costs.

#![allow(clippy::unwrap_used, reason = "all of it is tests, the functions that they share included")]

mod clock;
mod faults;
mod figures;
mod group;
mod idle;
mod on_time;
mod owners;
mod process;
mod stand;
