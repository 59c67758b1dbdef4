//! The sink `file`: NDJSON files. A delivery counts after flush and fsync.

mod beneath;
mod check;
mod config;
mod deliver;

pub use config::FileConfig;
pub(crate) use deliver::FileSink;

#[cfg(test)]
mod tests;
