//! Release windows: the time of day in which messages become due, behind the feature `jiff`.

use super::UnixMillis;
use super::spread::offset;
use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};
use std::ops::Range;
use std::time::Duration;
use std::{fmt, str};

/// A daily window such as `09:00-10:00 Europe/Berlin`. A window whose end is before its start crosses midnight.
///
/// Every time of a window is between both readings of the zone's clock, on days with a clock change too. A window that
/// lies in the hour that the clocks skip does not occur that day, and one in the hour that the clocks repeat occurs once.
#[derive(Clone, Debug)]
pub struct Window {
    start: Time,
    end: Time,
    zone: TimeZone,
}

/// A text that is not a window, or a window without a time before the year 10000.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OddWindow(String);

/// Most days that a zone skips in a row are one; a window occurs on the next.
const DAYS_AHEAD: i32 = 4;
const DAY_S: i64 = 86_400;

// === impl Window ===

impl Window {
    /// The first time, not before `earliest`, at which the id's turn comes: each id has its own offset in the window.
    ///
    /// # Errors
    /// There is no such time before the year 10000.
    pub fn due(&self, id: &str, earliest: UnixMillis) -> Result<UnixMillis, OddWindow> {
        self.first(id, earliest).ok_or_else(|| OddWindow(format!("no window opens after {earliest} ms")))
    }

    fn first(&self, id: &str, earliest: UnixMillis) -> Option<UnixMillis> {
        let today = self.zone.to_datetime(Timestamp::try_from(earliest).ok()?).date();
        let days = (-1..=DAYS_AHEAD).map_while(|days| today.checked_add(days.days()).ok());
        let mut dues = days.filter_map(|day| self.on(day)).map(|open| due_in(&open, id));
        dues.find(|&due| due >= earliest)
    }

    /// The window that begins on a day, in seconds since the epoch.
    fn on(&self, day: Date) -> Option<Range<i64>> {
        let last = if self.end < self.start { day.tomorrow().ok()? } else { day };
        let [first, again] = self.instants(day, self.start)?;
        let [end, _] = self.instants(last, self.end)?;
        let start = if again < end { again } else { first };
        (start < end).then_some(start..end)
    }

    /// The first and the last instant at which the zone's clock shows a time; for a skipped time the end of the gap.
    fn instants(&self, day: Date, time: Time) -> Option<[i64; 2]> {
        let wall = TimeZone::UTC.to_timestamp(day.to_datetime(time)).ok()?.as_second();
        let (before, after) = (self.offset(wall - DAY_S)?, self.offset(wall + DAY_S)?);
        let shows = |offset: i64| self.offset(wall - offset) == Some(offset);
        match (shows(before), shows(after)) {
            (true, true) => Some([wall - before.max(after), wall - before.min(after)]),
            (true, false) => Some([wall - before; 2]),
            (false, true) => Some([wall - after; 2]),
            (false, false) => self.change(wall - DAY_S, wall + DAY_S).map(|at| [at; 2]),
        }
    }

    /// The instant of the change of the offset between two instants.
    fn change(&self, mut before: i64, mut after: i64) -> Option<i64> {
        let offset = self.offset(before)?;
        while after - before > 1 {
            let middle = before.midpoint(after);
            if self.offset(middle)? == offset { before = middle } else { after = middle }
        }
        Some(after)
    }

    fn offset(&self, second: i64) -> Option<i64> {
        Some(self.zone.to_offset(Timestamp::from_second(second).ok()?).seconds().into())
    }
}

impl str::FromStr for Window {
    type Err = OddWindow;

    fn from_str(text: &str) -> Result<Self, OddWindow> {
        let unread = || {
            OddWindow(format!(
                "{text:?} is not a window: write HH:MM-HH:MM ZONE, as 09:00-10:00 Europe/Berlin"
            ))
        };
        let (times, name) = text.split_once(' ').ok_or_else(unread)?;
        let (start, end) = times.split_once('-').ok_or_else(unread)?;
        let [start, end] = [clock(start).ok_or_else(unread)?, clock(end).ok_or_else(unread)?];
        if start == end {
            return Err(OddWindow(format!("the window {text:?} is empty: its end is its start")));
        }
        let zone =
            TimeZone::get(name).ok().filter(|zone| zone.iana_name() == Some(name) && !zone.is_unknown());
        let zone = zone.ok_or_else(|| {
            OddWindow(format!(
                "unknown time zone {name:?} in the window {text:?}; write one such as Europe/Berlin"
            ))
        })?;
        Ok(Self { start, end, zone })
    }
}

fn clock(text: &str) -> Option<Time> {
    let (hour, minute) = text.split_once(':')?;
    let two = |digits: &str| match digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        true => digits.parse().ok(),
        false => None,
    };
    Time::new(two(hour)?, two(minute)?, 0, 0).ok()
}

fn due_in(open: &Range<i64>, id: &str) -> UnixMillis {
    let start = UnixMillis::new(u64::try_from(open.start).unwrap_or_default() * 1000);
    start + offset(id, Duration::from_secs((open.end - open.start).unsigned_abs()))
}

// === impl OddWindow ===

impl fmt::Display for OddWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for OddWindow {}
