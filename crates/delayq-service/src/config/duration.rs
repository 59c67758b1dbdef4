//! A duration as people write it: `"250ms"`, `"2h30m"`.

use std::fmt;
use std::ops::Deref;
use std::str::FromStr;
use std::time::Duration;

const DAY_SECS: u64 = 86_400;

/// A [`Duration`] with a unit in its text. `*value` is the plain duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HumanDuration(Duration);

// === impl HumanDuration ===

impl HumanDuration {
    /// A duration of milliseconds.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(Duration::from_millis(millis))
    }

    /// A duration of microseconds.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(Duration::from_micros(micros))
    }

    /// A duration of seconds.
    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Self(Duration::from_secs(secs))
    }
}

impl Deref for HumanDuration {
    type Target = Duration;

    fn deref(&self) -> &Duration {
        &self.0
    }
}

impl From<Duration> for HumanDuration {
    fn from(duration: Duration) -> Self {
        Self(duration)
    }
}

impl From<HumanDuration> for Duration {
    fn from(duration: HumanDuration) -> Self {
        duration.0
    }
}

impl fmt::Display for HumanDuration {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // humantime counts in years of 365.25 days, and prints 365 days as 11 months and some.
        let days = self.0.as_secs() / DAY_SECS;
        let rest = self.0 - Duration::from_secs(days * DAY_SECS);
        match days {
            0 => return humantime::format_duration(rest).fmt(out),
            1 => write!(out, "1day")?,
            _ => write!(out, "{days}days")?,
        }
        if rest.is_zero() { Ok(()) } else { write!(out, " {}", humantime::format_duration(rest)) }
    }
}

const WRITE: &str = "expected a duration with its unit, such as \"250ms\" or \"2h30m\"";

impl FromStr for HumanDuration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.trim_start().starts_with('-') {
            return Err(format!("a duration cannot be negative; {WRITE}"));
        }
        if text.split(|letter: char| !letter.is_alphabetic()).any(|unit| unit == "M") {
            return Err("M is ambiguous: write 30m for minutes or 30months for months".to_owned());
        }
        humantime::parse_duration(text).map(Self).map_err(|error| format!("{error}; {WRITE}"))
    }
}

crate::written!(HumanDuration, "a duration with its unit in quotes, such as \"250ms\" or \"2h30m\"");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_and_prints_the_same_duration() {
        for (text, millis) in
            [("250ms", 250), ("2h30m", 9_000_000), ("10s", 10_000), ("0s", 0), ("1m 5s", 65_000)]
        {
            let read: HumanDuration = text.parse().unwrap();
            assert_eq!(*read, Duration::from_millis(millis), "{text}");
            assert_eq!(read.to_string().parse(), Ok(read), "{text}");
        }
    }

    #[test]
    fn a_year_is_printed_in_days() {
        for (hours, text) in [(24, "1day"), (25, "1day 1h"), (7 * 24, "7days"), (365 * 24, "365days")] {
            assert_eq!(HumanDuration::from_secs(hours * 3600).to_string(), text);
        }
    }

    #[test]
    fn a_number_without_unit_is_refused() {
        let refusal = "250".parse::<HumanDuration>().unwrap_err();
        assert!(refusal.contains("\"250ms\""), "{refusal}");
        assert!("-1s".parse::<HumanDuration>().is_err());
        assert!("".parse::<HumanDuration>().is_err());
    }

    #[test]
    fn thirty_capital_m_is_not_thirty_months() {
        for text in ["30M", "1h 30M", "2M30s", "30 M"] {
            let refusal = text.parse::<HumanDuration>().unwrap_err();
            assert!(refusal.contains("write 30m for minutes or 30months for months"), "{text}: {refusal}");
        }
        assert_eq!("1month".parse(), Ok(HumanDuration::from_secs(2_630_016)));
    }
}
