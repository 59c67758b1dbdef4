//! Times as people write them: RFC 3339, `+30m`, `tomorrow 09:00 Europe/Berlin`, milliseconds since the epoch.
//!
//! ```text
//! now | +DURATION                             from now, on Redis's clock
//! 1766000000000                               milliseconds since the epoch; before 2001 only where that is confirmed
//! 2026-12-24T18:00:00+01:00                   RFC 3339, also with [Europe/Berlin] behind it
//! [DAY] HH:MM[:SS] [ZONE]                     DAY: today, tomorrow, monday … sunday, YYYY-MM-DD; none: the next such
//!                                             time. ZONE: UTC, Europe/Berlin …; none: that of this machine
//! ```

use crate::output::time;
use delayq::{Due, UnixMillis};
use delayq_service::config::HumanDuration;
use jiff::civil::{Date, Time, Weekday};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _, Zoned};
use std::time::Duration;

const ACCEPTED: &str = "write RFC 3339 (2026-12-24T18:00:00+01:00), +30m, now, milliseconds since the epoch, or \
                        [today|tomorrow|monday|2026-12-24] 09:00 [Europe/Berlin]";

/// 2001-01-01 in milliseconds. A smaller bare number is seconds taken for milliseconds, most likely: as milliseconds,
/// every date of this century in seconds lies in the January of 1970.
const DOUBTFUL_BEFORE_MS: u64 = 978_307_200_000;

/// A time on the command line; relative ones count from Redis's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct When {
    due: Due,
    /// It was a bare number, and as milliseconds it is before 2001.
    doubtful: bool,
}

/// A duration on the command line.
pub type Span = HumanDuration;

// === impl When ===

impl When {
    /// Reads a time; days and wall clocks count from `now`, whose zone holds where none is named.
    ///
    /// # Errors
    /// A sentence that says what is wrong and what is accepted.
    pub fn parse(text: &str, now: &Zoned) -> Result<Self, String> {
        let text = text.trim();
        if text == "now" {
            return Ok(Self::sure(Due::After(Duration::ZERO)));
        }
        if let Some(span) = text.strip_prefix('+') {
            let span: HumanDuration = span.trim().parse()?;
            return Ok(Self::sure(Due::After(*span)));
        }
        let digits = text.strip_prefix('-').unwrap_or(text);
        if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
            let ms = millis(text)?;
            return Ok(Self { due: Due::At(ms), doubtful: ms.get() < DOUBTFUL_BEFORE_MS });
        }
        if let Ok(zoned) = text.parse::<Zoned>() {
            return at(zoned.timestamp());
        }
        if let Ok(timestamp) = text.parse::<Timestamp>() {
            return at(timestamp);
        }
        at(wall_clock(text, now)?)
    }

    const fn sure(due: Due) -> Self {
        Self { due, doubtful: false }
    }

    /// When it is. A bare number of milliseconds before 2001 counts only with `past_ok`.
    ///
    /// # Errors
    /// A sentence that says what the number was probably meant to be.
    pub fn due(self, past_ok: bool) -> Result<Due, String> {
        match self.due {
            Due::At(at) if self.doubtful && !past_ok => Err(seconds_meant(at)),
            due => Ok(due),
        }
    }

    /// The point in time, where Redis's clock reads `now`.
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

fn seconds_meant(at: UnixMillis) -> String {
    let as_ms = time(at);
    match at.get().checked_mul(1000).map(UnixMillis::new) {
        Some(meant) if meant.get() >= DOUBTFUL_BEFORE_MS => format!(
            "{at} ms since the epoch is {as_ms}; if seconds were meant, write {meant} ({}), and if not, {as_ms}",
            time(meant)
        ),
        _ => {
            format!("{at} ms since the epoch is {as_ms}; if that is meant, write it so, and for a delay +30m")
        }
    }
}

impl std::str::FromStr for When {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::parse(text, &Zoned::now())
    }
}

fn millis(text: &str) -> Result<UnixMillis, String> {
    match text.parse::<u64>() {
        Ok(ms) if (1..=UnixMillis::MAX.get()).contains(&ms) => Ok(UnixMillis::new(ms)),
        _ => Err(format!("{text} ms is not between 1 and {} ms since the epoch", UnixMillis::MAX)),
    }
}

fn at(timestamp: Timestamp) -> Result<When, String> {
    Ok(When::sure(Due::At(millis(&timestamp.as_millisecond().to_string())?)))
}

fn wall_clock(text: &str, now: &Zoned) -> Result<Timestamp, String> {
    let mut words: Vec<&str> = text.split_whitespace().collect();
    let unread = || format!("{text:?} is not a time; {ACCEPTED}");
    let zone = match words.last() {
        Some(last) if words.len() > 1 && last.parse::<Time>().is_err() => {
            let name = words.pop().expect("there is a last word");
            TimeZone::get(name).map_err(|_| format!("there is no time zone {name:?}; {ACCEPTED}"))?
        }
        _ => now.time_zone().clone(),
    };
    let now = now.with_time_zone(zone.clone());
    let (day, clock) = match words.as_slice() {
        [clock] => (None, *clock),
        [day, clock] => (Some(*day), *clock),
        _ => return Err(unread()),
    };
    let clock: Time = clock.parse().map_err(|_| unread())?;
    let sure = |date: Date| {
        let zoned = zone.to_ambiguous_zoned(date.to_datetime(clock));
        zoned.unambiguous().map_err(|_| {
            format!(
                "{clock} on {date} is skipped or comes twice in {}, as the clocks change; give the offset: RFC 3339",
                zone.iana_name().unwrap_or("this zone")
            )
        })
    };
    let next = |dates: &mut dyn Iterator<Item = Date>| {
        for date in dates {
            let zoned = sure(date)?;
            if zoned > now {
                return Ok(zoned);
            }
        }
        Err(unread())
    };
    let today = now.date();
    let ahead = |days: i32| today.checked_add(days.days()).map_err(|_| unread());
    let zoned = match day.map(str::to_ascii_lowercase).as_deref() {
        None => next(&mut [today, ahead(1)?].into_iter())?,
        Some("today") => sure(today)?,
        Some("tomorrow") => sure(ahead(1)?)?,
        Some(name) => match weekday(name) {
            Some(weekday) => {
                let days = today.weekday().until(weekday).into();
                next(&mut [ahead(days)?, ahead(days + 7)?].into_iter())?
            }
            None => sure(name.parse().map_err(|_| unread())?)?,
        },
    };
    Ok(zoned.timestamp())
}

fn weekday(name: &str) -> Option<Weekday> {
    Some(match name {
        "monday" | "mon" => Weekday::Monday,
        "tuesday" | "tue" => Weekday::Tuesday,
        "wednesday" | "wed" => Weekday::Wednesday,
        "thursday" | "thu" => Weekday::Thursday,
        "friday" | "fri" => Weekday::Friday,
        "saturday" | "sat" => Weekday::Saturday,
        "sunday" | "sun" => Weekday::Sunday,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A Friday.
    fn now() -> Zoned {
        "2026-11-20T12:00:00[Europe/Berlin]".parse().unwrap()
    }

    #[test]
    fn every_documented_form_is_read() {
        for (text, expected) in [
            ("2026-12-24T18:00:00+01:00", "2026-12-24T17:00:00Z"),
            ("2026-12-24 18:00:00Z", "2026-12-24T18:00:00Z"),
            ("2026-12-24T18:00:00[Europe/Berlin]", "2026-12-24T17:00:00Z"),
            ("1800000000000", "2027-01-15T08:00:00Z"),
            ("tomorrow 09:00 Europe/Berlin", "2026-11-21T08:00:00Z"),
            ("tomorrow 09:00", "2026-11-21T08:00:00Z"),
            ("today 09:00 UTC", "2026-11-20T09:00:00Z"),
            ("tomorrow 00:30 Asia/Tokyo", "2026-11-20T15:30:00Z"),
            ("09:00", "2026-11-21T08:00:00Z"),
            ("13:30:15", "2026-11-20T12:30:15Z"),
            ("friday 09:00", "2026-11-27T08:00:00Z"),
            ("Fri 13:00", "2026-11-20T12:00:00Z"),
            ("monday 08:00 America/New_York", "2026-11-23T13:00:00Z"),
            ("2027-03-28 12:00 Europe/Berlin", "2027-03-28T10:00:00Z"),
        ] {
            let expected: Timestamp = expected.parse().unwrap();
            let expected = UnixMillis::new(expected.as_millisecond() as u64);
            assert_eq!(When::parse(text, &now()), Ok(When::sure(Due::At(expected))), "{text}");
        }
        assert_eq!(When::parse("+2h30m", &now()), Ok(When::sure(Due::After(Duration::from_secs(9000)))));
        assert_eq!(When::parse("+90s", &now()), Ok(When::sure(Due::After(Duration::from_secs(90)))));
        assert_eq!(When::parse("now", &now()), Ok(When::sure(Due::After(Duration::ZERO))));
    }

    #[test]
    fn what_is_no_time_is_refused_with_what_is_accepted() {
        for text in [
            "",
            "NaN",
            "soon",
            "tomorrow",
            "25:00",
            "tomorrow 9",
            "a b c d",
            "1e5",
            "0x10",
            "+",
            "+30",
            "-1h",
        ] {
            let refusal = When::parse(text, &now()).unwrap_err();
            assert!(refusal.contains("write "), "{text}: {refusal}");
        }
        for text in ["0", "-5", "9007199254740992", "99999999999999999999999", "1969-12-31T23:59:59Z"] {
            let refusal = When::parse(text, &now()).unwrap_err();
            assert!(refusal.contains("not between 1 and 9007199254740991 ms"), "{text}: {refusal}");
        }
        let refusal = When::parse("09:00 Europe/Atlantis", &now()).unwrap_err();
        assert!(refusal.contains("no time zone \"Europe/Atlantis\""), "{refusal}");
    }

    #[test]
    fn a_bare_number_of_seconds_is_not_taken_for_milliseconds_of_1970() {
        let doubtful = When::parse("1800000000", &now()).unwrap();
        let refusal = doubtful.due(false).unwrap_err();
        assert!(refusal.contains("write 1800000000000 (2027-01-15T08:00:00.000Z)"), "{refusal}");
        assert!(doubtful.at(UnixMillis::new(0)).is_err());
        assert_eq!(doubtful.due(true), Ok(Due::At(UnixMillis::new(1_800_000_000))));
        let small = When::parse("1800", &now()).unwrap().due(false).unwrap_err();
        assert!(small.contains("1970-01-01T00:00:01.800Z") && small.contains("+30m"), "{small}");
        for sure in ["978307200000", "1970-01-21T20:00:00Z", "+1s", "now"] {
            assert!(When::parse(sure, &now()).unwrap().due(false).is_ok(), "{sure}");
        }
    }

    #[test]
    fn a_wall_clock_that_is_skipped_or_comes_twice_is_refused() {
        for text in ["2027-03-28 02:30 Europe/Berlin", "2026-10-25 02:30 Europe/Berlin"] {
            let refusal = When::parse(text, &now()).unwrap_err();
            assert!(refusal.contains("as the clocks change"), "{refusal}");
        }
    }
}
