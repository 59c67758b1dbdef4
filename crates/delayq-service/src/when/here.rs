//! The clock and the zone of this machine, the base of days and wall clocks.

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

/// The time and place of reading a time.
#[derive(Clone, Debug)]
pub struct Here {
    now: Timestamp,
    /// `None`: the machine is asked once needed.
    zone: Option<TimeZone>,
}

// === impl Here ===

impl Here {
    /// This machine, now.
    #[must_use]
    pub fn of_process() -> Self {
        Self { now: Timestamp::now(), zone: None }
    }

    pub(super) fn now(&self, zone: &TimeZone) -> Zoned {
        self.now.to_zoned(zone.clone())
    }

    pub(super) fn zone(&self) -> Result<TimeZone, String> {
        self.zone.clone().map_or_else(of_machine, Ok)
    }
}

impl From<Zoned> for Here {
    fn from(now: Zoned) -> Self {
        Self { now: now.timestamp(), zone: Some(now.time_zone().clone()) }
    }
}

/// A machine without `TZ` and without `/etc/localtime` is in UTC, as for libc.
#[allow(clippy::disallowed_methods, reason = "the module that knows the zone of this machine")]
fn of_machine() -> Result<TimeZone, String> {
    match (TimeZone::try_system(), std::env::var_os("TZ")) {
        (Ok(zone), _) => Ok(zone),
        (Err(_), None) => Ok(TimeZone::UTC),
        (Err(_), Some(name)) => Err(format!(
            "TZ={name:?} in the environment is not a time zone; correct it, or add a zone or offset to the \
             time"
        )),
    }
}
