//! Points in time as the protocol writes them: milliseconds since the epoch, on Redis's clock.

use serde::{Deserialize, Serialize};
use std::{fmt, ops, time::Duration};

/// Milliseconds since the Unix epoch.
///
/// Which clock it was read from is said where it is made: due times and everything that a script answers
/// are on the clock of the shard's Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UnixMillis(u64);

// === impl UnixMillis ===

impl UnixMillis {
    /// The latest time that can be stored: 2^53 − 1, the largest integer that a sorted set's score keeps exactly.
    pub const MAX: Self = Self((1 << 53) - 1);

    /// A time from its milliseconds since the epoch.
    pub const fn new(ms: u64) -> Self {
        Self(ms)
    }

    /// Milliseconds since the epoch.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// How long after `earlier` this is; zero where it is not after it.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// The hour since the epoch that this time falls into.
    pub const fn hour(self) -> u64 {
        self.0 / 3_600_000
    }
}

impl ops::Add<Duration> for UnixMillis {
    type Output = Self;

    /// Saturates: a sum past `u64` is beyond [`UnixMillis::MAX`] and refused where it is used.
    fn add(self, delay: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(delay.as_millis()).unwrap_or(u64::MAX)))
    }
}

impl fmt::Display for UnixMillis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
