//! The sink `file`: NDJSON files, flushed and fsynced before anything counts as delivered.

mod beneath;
mod check;
mod config;
mod deliver;

pub use config::FileConfig;
pub(crate) use deliver::FileSink;

#[cfg(test)]
mod tests;
