//! What the benchmarks and rehearsals share.

pub mod event_log;
pub mod program;
