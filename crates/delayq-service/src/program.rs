//! The name and version of a process.

use std::fmt;

/// The name and version of a binary: `Program { name: "delayq-timer", version: env!("CARGO_PKG_VERSION") }`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    /// The name of the binary.
    pub name: &'static str,
    /// The version.
    pub version: &'static str,
}

impl fmt::Display for Program {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}", self.name, self.version)
    }
}
