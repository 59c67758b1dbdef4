//! Points in time in the protocol: milliseconds since the epoch, on Redis's clock.

#[cfg(feature = "jiff")]
mod jiff;
mod spread;
#[cfg(feature = "jiff")]
mod window;

pub use spread::offset;
#[cfg(feature = "jiff")]
pub use window::{OddWindow, Window};

use serde::{Deserialize, Serialize};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{fmt, ops};

/// Milliseconds since the Unix epoch.
///
/// The clock depends on the source: due times and all times in script answers are on the clock of the shard's Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UnixMillis(u64);

/// A time in µs, as in script answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnixMicros(pub u64);

/// The difference by which a due time is moved, in whole milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shift {
    /// To a later time.
    Later(Duration),
    /// To an earlier time.
    Earlier(Duration),
}

/// A time that is most likely in another unit than milliseconds. Nothing was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OddTime {
    /// The kind of time.
    pub what: &'static str,
    /// The time.
    pub at: UnixMillis,
}

/// 2001-01-01 and 10000-01-01, in seconds since the epoch: intended times lie in between.
pub const MEANT_SECONDS: ops::Range<u64> = 978_307_200..253_402_300_800;

// === impl UnixMillis ===

impl UnixMillis {
    /// The latest storable time: 2^53 − 1, the largest integer that a sorted set's score keeps exactly.
    pub const MAX: Self = Self((1 << 53) - 1);

    /// A time from its milliseconds since the epoch.
    pub const fn new(ms: u64) -> Self {
        Self(ms)
    }

    /// Milliseconds since the epoch.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The time since `earlier`; zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// Refuses a time that is most likely in seconds or microseconds: in that unit the time lies between 2001 and 9999,
    /// in milliseconds before 1979, or after the year 32,000. Accepts [`Self::MAX`].
    ///
    /// # Errors
    /// The time is refused; `what` names the kind of time in the error.
    pub fn check(self, what: &'static str) -> Result<(), OddTime> {
        let odd =
            MEANT_SECONDS.contains(&self.0) || self < Self::MAX && self.0 >= MEANT_SECONDS.start * 1_000_000;
        if odd { Err(OddTime { what, at: self }) } else { Ok(()) }
    }

    /// The same time on a clock that was set ahead by `ms`, or back if negative.
    #[must_use]
    pub const fn set_by(self, ms: i64) -> Self {
        Self(self.0.saturating_add_signed(ms))
    }

    /// The hour of this time, counted from the epoch.
    pub const fn hour(self) -> u64 {
        self.0 / 3_600_000
    }
}

impl From<SystemTime> for UnixMillis {
    /// Rounded up to whole milliseconds, so that nothing is due before `time`; 0 before the epoch, which no due time
    /// may be.
    fn from(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(u64::try_from(since.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX))
    }
}

impl From<UnixMillis> for SystemTime {
    fn from(time: UnixMillis) -> Self {
        UNIX_EPOCH + Duration::from_millis(time.0)
    }
}

impl ops::Add<Duration> for UnixMillis {
    type Output = Self;

    /// Saturates: a sum past `u64` exceeds [`UnixMillis::MAX`] and is refused on use.
    fn add(self, delay: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(delay.as_millis()).unwrap_or(u64::MAX)))
    }
}

impl fmt::Display for UnixMillis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

// === impl OddTime ===

impl fmt::Display for OddTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, at } = *self;
        let ms = at.get();
        let (is, unit, meant) = match MEANT_SECONDS.contains(&ms) {
            true => ("before 1979", "seconds", ms * 1000),
            false => ("after the year 32,000", "microseconds", ms / 1000),
        };
        write!(f, "{what} is {ms} ms since the epoch, which is {is}; if {unit} were meant, give {meant}")
    }
}

impl std::error::Error for OddTime {}

// === impl UnixMicros ===

impl UnixMicros {
    /// The millisecond of this time.
    pub const fn millis(self) -> UnixMillis {
        UnixMillis::new(self.0 / 1000)
    }

    /// The time since `due`; zero if `due` is later.
    pub const fn since(self, due: UnixMillis) -> Duration {
        Duration::from_micros(self.0.saturating_sub(due.get().saturating_mul(1000)))
    }
}

// === impl Shift ===

impl Shift {
    /// A shift by this many milliseconds, earlier if negative.
    pub const fn from_millis(ms: i64) -> Self {
        let by = Duration::from_millis(ms.unsigned_abs());
        if ms < 0 { Self::Earlier(by) } else { Self::Later(by) }
    }

    /// The milliseconds to add, negative for an earlier time; limited to `i64`.
    pub fn millis(self) -> i64 {
        let ms = |by: Duration| u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        match self {
            Self::Later(by) => 0_i64.saturating_add_unsigned(ms(by)),
            Self::Earlier(by) => 0_i64.saturating_sub_unsigned(ms(by)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shift_keeps_its_milliseconds_and_saturates() {
        for ms in [i64::MIN, -90_000, -1, 0, 1, i64::MAX] {
            assert_eq!(Shift::from_millis(ms).millis(), ms);
        }
        assert_eq!(Shift::Earlier(Duration::MAX).millis(), i64::MIN);
        assert_eq!(Shift::Later(Duration::from_micros(1999)).millis(), 1);
    }

    #[test]
    fn seconds_and_microseconds_are_not_taken_for_milliseconds() {
        for (ms, says) in [
            (1, None),
            (978_307_199, None),
            (978_307_200, Some("if seconds were meant, give 978307200000")),
            (1_800_000_000, Some("the due time is 1800000000 ms since the epoch, which is before 1979")),
            (253_402_300_799, Some("give 253402300799000")),
            (253_402_300_800, None),
            (1_800_000_000_000, None),
            (978_307_199_999_999, None),
            (1_800_000_000_000_000, Some("if microseconds were meant, give 1800000000000")),
            (UnixMillis::MAX.get() - 1, Some("microseconds")),
            (UnixMillis::MAX.get(), None),
        ] {
            let said = UnixMillis::new(ms).check("the due time").map_err(|odd| odd.to_string());
            match says {
                None => assert_eq!(said, Ok(()), "{ms}"),
                Some(says) => assert!(said.clone().is_err_and(|odd| odd.contains(says)), "{ms}: {said:?}"),
            }
        }
    }

    #[test]
    fn a_time_of_the_system_is_never_early() {
        let second = UNIX_EPOCH + Duration::from_secs(1);
        assert_eq!(UnixMillis::from(second), UnixMillis::new(1000));
        assert_eq!(UnixMillis::from(second + Duration::from_nanos(1)), UnixMillis::new(1001));
        assert_eq!(UnixMillis::from(UNIX_EPOCH - Duration::from_secs(1)), UnixMillis::new(0));
    }
}
