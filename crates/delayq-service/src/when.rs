//! Points in time as people and programs write them: the only parser of a time, for the command line, files and
//! records.
//!
//! ```text
//! now | +DURATION                       from now, on Redis's clock
//! MILLISECONDS                          since the epoch; before 2001 and after 9999 only if confirmed
//! [DAY] CLOCK [OFFSET] [ZONE]           a wall clock:
//!   DAY     today, tomorrow, monday … sunday, or YYYY-MM-DD, which T may join to the clock; without it, the next such time
//!   CLOCK   H:MM, HH:MM:SS, HH:MM:SS.FRACTION
//!   OFFSET  Z, +01:00, +0100, +01
//!   ZONE    Europe/Berlin or [Europe/Berlin]; without offset and zone, that of this machine
//! ```
//!
//! [`When`] reads every form. [`moment`] reads only forms that mean the same at any time and on any machine:
//! milliseconds, and a date with a clock and an offset or a zone. Both consume the whole text.

mod clock;
mod here;
mod number;
mod print;
mod spreading;

pub use here::Here;
pub use print::time;
pub use spreading::Spreading;

use crate::config::HumanDuration;
use clock::WallClock;
use delayq::{Due, UnixMillis};
use jiff::Timestamp;
use std::time::Duration;

const WRITE: &str = "write RFC 3339 (2026-12-24T18:00:00+01:00), +30m, now, milliseconds since the epoch, or \
                     [today|tomorrow|monday|2026-12-24] 09:00 [Europe/Berlin]";
const WRITE_ANYWHERE: &str =
    "write RFC 3339 (2026-12-24T18:00:00+01:00), +30m, now, or milliseconds since the epoch";
const WRITE_MOMENT: &str =
    "expected milliseconds since the epoch, or RFC 3339 such as 2026-12-24T18:00:00+01:00";

/// A time as written; relative times count from Redis's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct When {
    due: Due,
    bare: bool,
}

// === impl When ===

impl When {
    /// Reads a time; days and wall clocks count from `here`.
    ///
    /// # Errors
    /// A sentence with the fault and the accepted forms.
    pub fn parse(text: &str, here: &Here) -> Result<Self, String> {
        let text = text.trim();
        if let Some(when) = Self::without_clock(text) {
            return when;
        }
        let unread = |why| format!("{text:?} is not a time: {why}; {WRITE}");
        let clock = WallClock::read(text).map_err(unread)?;
        Ok(Self::sure(Due::At(millis(clock.next(here)?)?)))
    }

    /// Reads a time that means the same on any machine: `now`, `+DURATION`, or a [`moment`].
    ///
    /// # Errors
    /// A sentence with the fault and the accepted forms.
    pub fn anywhere(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if let Some(when) = Self::without_clock(text) {
            return when;
        }
        let unread = |why| format!("{text:?} is not a time: {why}; {WRITE_ANYWHERE}");
        let clock = WallClock::read(text).map_err(unread)?.fixed().map_err(unread)?;
        Ok(Self::sure(Due::At(millis(clock)?)))
    }

    /// Reads the forms without a wall clock; `None` for any other text.
    fn without_clock(text: &str) -> Option<Result<Self, String>> {
        if text == "now" {
            return Some(Ok(Self::sure(Due::After(Duration::ZERO))));
        }
        if let Some(span) = text.strip_prefix('+') {
            return Some(span.trim().parse().map(|span: HumanDuration| Self::sure(Due::After(*span))));
        }
        number::read(text).map(|at| Ok(Self { due: Due::At(at?), bare: true }))
    }

    const fn sure(due: Due) -> Self {
        Self { due, bare: false }
    }

    /// Returns the due time. A bare number before 2001 or after 9999 counts as milliseconds only with `past_ok`.
    ///
    /// # Errors
    /// A sentence with the number's likely meaning.
    pub fn due(self, past_ok: bool) -> Result<Due, String> {
        if let (Due::At(at), true, false) = (self.due, self.bare, past_ok) {
            number::plausible(at)?;
        }
        Ok(self.due)
    }

    /// The point in time if Redis's clock reads `now`.
    ///
    /// # Errors
    /// As [`When::due`] without `past_ok`.
    pub fn at(self, now: UnixMillis) -> Result<UnixMillis, String> {
        Ok(match self.due(false)? {
            Due::At(at) => at,
            Due::After(delay) => now + delay,
        })
    }
}

impl std::str::FromStr for When {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::parse(text, &Here::of_process())
    }
}

/// Reads a point in time that is independent of the time and place of reading.
///
/// # Errors
/// A sentence with the fault and the accepted forms.
pub fn moment(text: &str) -> Result<UnixMillis, String> {
    if let Some(at) = number::read(text) {
        return at.and_then(number::plausible);
    }
    let clock = WallClock::read(text).map_err(|why| format!("{why}; {WRITE_MOMENT}"))?;
    millis(clock.fixed().map_err(|why| format!("{why}; {WRITE_MOMENT}"))?)
}

/// Checks a point in time that a program gave as milliseconds.
///
/// # Errors
/// A sentence, if the number is most likely in seconds or microseconds.
pub fn plausible(at: UnixMillis) -> Result<UnixMillis, String> {
    number::plausible(at)
}

/// Rounds up, so that nothing is due before the written time.
fn millis(timestamp: Timestamp) -> Result<UnixMillis, String> {
    match UnixMillis::from(timestamp) {
        at if at.get() > 0 => Ok(at),
        _ => Err(format!("{timestamp} is not after 1970-01-01T00:00:00Z, the epoch")),
    }
}

#[cfg(test)]
mod tests;
