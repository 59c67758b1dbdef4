//! What an operator is told of a source: seen from beside it, and nothing is taken.

use thiserror::Error;

/// A source that a compensator can take in from, or does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntakeLook {
    /// How many records wait in the broker or are not settled.
    pub lag: u64,
    /// How many records the broker dropped before they were read, as far as that can be seen from outside: until a
    /// compensator has read on.
    pub lost: u64,
    /// Who reads it; `None`: nobody.
    pub reader: Option<String>,
}

/// Why no compensator could take in.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum IntakeFault {
    /// The broker does not answer, or refuses the login.
    #[error("{0}")]
    Unreachable(String),
    /// The source or its dead destination does not exist, does not keep the order, or may not be used.
    #[error("{0}")]
    Unusable(String),
    /// This program has no client for it.
    #[error("{0}")]
    Unknown(String),
}
