//! Shared by the benchmarks and rehearsals.

pub mod event_log;
pub mod program;
