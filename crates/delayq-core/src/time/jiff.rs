//! Times from and to jiff's `Timestamp`, behind the feature `jiff`.

use super::UnixMillis;
use jiff::Timestamp;
use std::time::SystemTime;

impl From<Timestamp> for UnixMillis {
    /// Rounded up to whole milliseconds; 0 before the epoch.
    fn from(time: Timestamp) -> Self {
        SystemTime::from(time).into()
    }
}

impl TryFrom<UnixMillis> for Timestamp {
    type Error = jiff::Error;

    /// Fails after the year 9999.
    fn try_from(time: UnixMillis) -> Result<Self, jiff::Error> {
        Self::try_from(SystemTime::from(time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_survives_the_way_through_jiff_until_the_year_9999() {
        let time = UnixMillis::new(1_700_000_000_123);
        let timestamp = Timestamp::try_from(time).unwrap();
        assert_eq!(timestamp.to_string(), "2023-11-14T22:13:20.123Z");
        assert_eq!(UnixMillis::from(timestamp), time);
        assert!(Timestamp::try_from(UnixMillis::MAX).is_err());
        assert_eq!(UnixMillis::from(Timestamp::MIN), UnixMillis::new(0));
    }
}
