//! An operator's view of a source, from outside: no record is taken.

use thiserror::Error;

/// A source that a compensator can take in from, or does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntakeLook {
    /// Number of unsettled records, including those that wait in the broker.
    pub lag: u64,
    /// Number of records that the broker dropped unread, as far as visible from outside: until a compensator has read on.
    pub lost: u64,
    /// The reader; `None`: nobody.
    pub reader: Option<String>,
}

/// Why no compensator could take in.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum IntakeFault {
    /// The broker does not answer, or refuses the login.
    #[error("{0}")]
    Unreachable(String),
    /// The source or the dead destination does not exist, does not keep the order, or may not be used.
    #[error("{0}")]
    Unusable(String),
    /// This program has no client for the broker.
    #[error("{0}")]
    Unknown(String),
}
