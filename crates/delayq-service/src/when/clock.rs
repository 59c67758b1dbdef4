//! A wall clock, with or without a day, an offset and a zone: `tomorrow 09:00 Europe/Berlin`, RFC 3339.

use super::here::Here;
use jiff::civil::{Date, DateTime, Time, Weekday};
use jiff::fmt::temporal::DateTimeParser;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};
use jiff::{Timestamp, ToSpan as _};

const DATE_BYTES: usize = 10;

#[derive(Clone, Debug)]
pub(super) struct WallClock {
    day: Day,
    clock: Time,
    offset: Option<Offset>,
    zone: Option<TimeZone>,
}

#[derive(Clone, Copy, Debug)]
enum Day {
    /// The next day on which the time is in the future.
    Next,
    Today,
    Tomorrow,
    /// The next such weekday on which the time is in the future.
    Weekday(Weekday),
    Date(Date),
}

// === impl WallClock ===

impl WallClock {
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let spaced = apart(text);
        let mut words = spaced.split_whitespace().peekable();
        let day = words.next_if(|word| !is_clock(word)).map_or(Ok(Day::Next), Day::read)?;
        let (clock, offset) = split_offset(words.next().ok_or("the time of day is missing")?);
        let clock = time_of_day(clock)?;
        let offset = offset.or_else(|| words.next_if(|word| is_offset(word)));
        let offset = offset.map(read_offset).transpose()?;
        let zone = words.next().map(zone).transpose()?;
        match words.next() {
            None => Ok(Self { day, clock, offset, zone }),
            Some(rest) => Err(format!("unexpected {rest:?}")),
        }
    }

    /// For a text with a day and an offset or zone.
    pub(super) fn fixed(&self) -> Result<Timestamp, String> {
        let zone = self.own_zone().ok_or("an offset or a time zone is missing")?;
        match self.day {
            Day::Date(date) => self.on(date, &zone),
            _ => Err("the date is missing".to_owned()),
        }
    }

    /// As seen from `here`.
    pub(super) fn next(&self, here: &Here) -> Result<Timestamp, String> {
        let zone = self.own_zone().map_or_else(|| here.zone(), Ok)?;
        let now = here.now(&zone);
        let today = now.date();
        let ahead =
            |days: i32| today.checked_add(days.days()).map_err(|_| "the year is after 9999".to_owned());
        let first = |dates: [Date; 2]| {
            let first = self.on(dates[0], &zone)?;
            if first > now.timestamp() { Ok(first) } else { self.on(dates[1], &zone) }
        };
        match self.day {
            Day::Date(date) => self.on(date, &zone),
            Day::Today => self.on(today, &zone),
            Day::Tomorrow => self.on(ahead(1)?, &zone),
            Day::Next => first([today, ahead(1)?]),
            Day::Weekday(weekday) => {
                let days = today.weekday().until(weekday).into();
                first([ahead(days)?, ahead(days + 7)?])
            }
        }
    }

    fn own_zone(&self) -> Option<TimeZone> {
        self.zone.clone().or_else(|| self.offset.map(TimeZone::fixed))
    }

    /// A wall clock that the zone skips or repeats needs an offset.
    fn on(&self, date: Date, zone: &TimeZone) -> Result<Timestamp, String> {
        let civil = date.to_datetime(self.clock);
        match (self.offset, zone.to_ambiguous_timestamp(civil).offset()) {
            (Some(offset), _) => agreeing(civil, offset, zone),
            (None, AmbiguousOffset::Unambiguous { offset }) => timestamp(civil, offset),
            (None, AmbiguousOffset::Gap { before, after }) => Err(format!(
                "clocks in {} move forward over {civil}, so this time does not exist; write {} or {}",
                name(zone),
                with_offset(civil, before)?,
                with_offset(civil, after)?,
            )),
            (None, AmbiguousOffset::Fold { before, after }) => Err(format!(
                "clocks in {} move back over {civil}, so this time occurs twice; write {} for the first, {} \
                 for the second",
                name(zone),
                with_offset(civil, before)?,
                with_offset(civil, after)?,
            )),
        }
    }
}

// === impl Day ===

impl Day {
    fn read(word: &str) -> Result<Self, String> {
        Ok(match word.to_ascii_lowercase().as_str() {
            "today" => Self::Today,
            "tomorrow" => Self::Tomorrow,
            "monday" | "mon" => Self::Weekday(Weekday::Monday),
            "tuesday" | "tue" => Self::Weekday(Weekday::Tuesday),
            "wednesday" | "wed" => Self::Weekday(Weekday::Wednesday),
            "thursday" | "thu" => Self::Weekday(Weekday::Thursday),
            "friday" | "fri" => Self::Weekday(Weekday::Friday),
            "saturday" | "sat" => Self::Weekday(Weekday::Saturday),
            "sunday" | "sun" => Self::Weekday(Weekday::Sunday),
            date if is_date(date) => Self::Date(date.parse().map_err(|_| format!("no such day: {date}"))?),
            _ => return Err(format!("{word:?} is not a day")),
        })
    }
}

/// Inserts a space where parts may follow each other without one: at the `T` after a date, and before a `[`.
fn apart(text: &str) -> String {
    let joined = text.is_char_boundary(DATE_BYTES) && is_date(&text[..DATE_BYTES]);
    match text.as_bytes().get(DATE_BYTES) {
        Some(b'T' | b't') if joined => format!("{} {}", &text[..DATE_BYTES], &text[DATE_BYTES + 1..]),
        _ => text.to_owned(),
    }
    .replace('[', " [")
}

fn is_date(text: &str) -> bool {
    let of_date = |(at, byte): (usize, u8)| match at {
        4 | 7 => byte == b'-',
        _ => byte.is_ascii_digit(),
    };
    text.len() == DATE_BYTES && text.bytes().enumerate().all(of_date)
}

fn is_clock(word: &str) -> bool {
    word.contains(':') && word.starts_with(|first: char| first.is_ascii_digit())
}

fn is_offset(word: &str) -> bool {
    word.starts_with(['+', '-']) || word.eq_ignore_ascii_case("z")
}

/// Splits a clock from an offset that follows without a space.
fn split_offset(word: &str) -> (&str, Option<&str>) {
    match word.find(['Z', 'z', '+', '-']) {
        Some(at) => (&word[..at], Some(&word[at..])),
        None => (word, None),
    }
}

fn time_of_day(text: &str) -> Result<Time, String> {
    let (clock, fraction) = text.split_once('.').map_or((text, None), |(clock, rest)| (clock, Some(rest)));
    let parts: Vec<Option<i8>> =
        clock.split(':').enumerate().map(|(at, part)| digits(part, at == 0)).collect();
    let time = match (parts.as_slice(), fraction) {
        (&[Some(hour), Some(minute)], None) => Time::new(hour, minute, 0, 0).ok(),
        (&[Some(hour), Some(minute), Some(second)], fraction) => {
            nanoseconds(fraction.unwrap_or("0")).and_then(|nanos| Time::new(hour, minute, second, nanos).ok())
        }
        _ => None,
    };
    time.ok_or_else(|| format!("{text:?} is not a time of day"))
}

fn digits(text: &str, is_hour: bool) -> Option<i8> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits && (text.len() == 2 || (is_hour && text.len() == 1)))
}

fn nanoseconds(fraction: &str) -> Option<i32> {
    let digits = fraction.bytes().all(|byte| byte.is_ascii_digit());
    format!("{fraction:0<9}").parse().ok().filter(|_| digits && (1..=9).contains(&fraction.len()))
}

fn read_offset(text: &str) -> Result<Offset, String> {
    if text.eq_ignore_ascii_case("z") {
        return Ok(Offset::UTC);
    }
    let zone =
        Some(text).filter(|text| is_offset(text)).map(|text| DateTimeParser::new().parse_time_zone(text));
    zone.and_then(Result::ok)
        .and_then(|zone| zone.to_fixed_offset().ok())
        .ok_or_else(|| format!("{text:?} is not an offset"))
}

fn zone(word: &str) -> Result<TimeZone, String> {
    let name = word.strip_prefix('[').map_or(Some(word), |rest| rest.strip_suffix(']')).unwrap_or(word);
    let known = TimeZone::get(name).ok().filter(|zone| !zone.is_unknown());
    known.ok_or_else(|| format!("unknown time zone {name:?}"))
}

/// The point in time, if the zone has that offset then.
fn agreeing(civil: DateTime, offset: Offset, zone: &TimeZone) -> Result<Timestamp, String> {
    let at = timestamp(civil, offset)?;
    let own = zone.to_offset(at);
    match own == offset {
        true => Ok(at),
        false => Err(format!(
            "{} contradicts the zone {}, where that time is {}; omit the offset or the zone",
            at.display_with_offset(offset),
            name(zone),
            at.display_with_offset(own)
        )),
    }
}

fn timestamp(civil: DateTime, offset: Offset) -> Result<Timestamp, String> {
    offset.to_timestamp(civil).map_err(|_| {
        format!("{civil} is out of range: the latest time in this form is {:.0}", Timestamp::MAX)
    })
}

fn with_offset(civil: DateTime, offset: Offset) -> Result<String, String> {
    Ok(timestamp(civil, offset)?.display_with_offset(offset).to_string())
}

fn name(zone: &TimeZone) -> &str {
    zone.iana_name().unwrap_or("this machine's zone")
}
