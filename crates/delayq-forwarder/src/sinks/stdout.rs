//! The sink `stdout`: NDJSON on standard output, for pipes and for looking on.

mod check;
mod config;
mod deliver;

pub use config::StdoutConfig;
pub(crate) use deliver::StdoutSink;
