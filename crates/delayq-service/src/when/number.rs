//! Bare numbers: milliseconds since the epoch, unless most likely seconds or microseconds.

use super::print::time;
use delayq::UnixMillis;

/// 2001-01-01. A smaller number is most likely in seconds: read as milliseconds, every date of this century in seconds
/// falls in January 1970.
const PLAUSIBLE_FROM: UnixMillis = UnixMillis::new(978_307_200_000);
/// The last millisecond of 9999. A larger number is most likely in microseconds or nanoseconds.
const PLAUSIBLE_UNTIL: UnixMillis = UnixMillis::new(253_402_300_799_999);

/// `None` for text other than digits.
pub(super) fn read(text: &str) -> Option<Result<UnixMillis, String>> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(match text.parse::<u64>() {
        Ok(ms) if (1..=UnixMillis::MAX.get()).contains(&ms) => Ok(UnixMillis::new(ms)),
        _ => Err(format!("{text} ms is not between 1 and {} ms since the epoch", UnixMillis::MAX)),
    })
}

/// Refuses milliseconds before 2001 and after 9999.
pub(super) fn plausible(at: UnixMillis) -> Result<UnixMillis, String> {
    if (PLAUSIBLE_FROM..=PLAUSIBLE_UNTIL).contains(&at) {
        return Ok(at);
    }
    let (unit, meant) = match at < PLAUSIBLE_FROM {
        true => ("seconds", at.get().saturating_mul(1000)),
        false => ("microseconds", at.get() / 1000),
    };
    let meant = UnixMillis::new(meant);
    let read_as = match at < PLAUSIBLE_FROM {
        true => format!("{at} ms since the epoch is {}", time(at)),
        false => format!("{at} ms since the epoch is after the year 9999"),
    };
    Err(match (PLAUSIBLE_FROM..=PLAUSIBLE_UNTIL).contains(&meant) {
        true => format!("{read_as}; if {unit} were meant, write {meant} ({})", time(meant)),
        false if at < PLAUSIBLE_FROM => format!("{read_as}; for a delay, write +30m"),
        false => read_as,
    })
}
