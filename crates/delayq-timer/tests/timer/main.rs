//! The timer against real servers: on time, never early, and the cost of each fault.

#![allow(clippy::unwrap_used, reason = "all of it is tests, the functions that they share included")]

mod books;
mod bounds;
mod clock;
mod clock_drills;
mod cluster;
mod cluster_cut;
mod cut_off;
mod drill;
mod etcd_breaks;
mod etcd_state;
mod faults;
mod figures;
mod fleet;
mod foreign;
mod full_etcd;
mod growth;
mod idle;
mod load;
mod members;
mod nodes;
mod on_time;
mod owners;
mod process;
mod pulse;
mod ready;
mod spare;
mod stand;
mod steps;
mod survey;
mod sweeps;
mod topics;
mod turns;
mod unreached;
mod witness;
mod workers;
