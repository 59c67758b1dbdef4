//! Times as records write them: milliseconds since 1970 or RFC 3339, and delays with their unit.

use delayq::{Due, UnixMillis};
use delayq_service::config::HumanDuration;
use jiff::Timestamp;

/// 2001-01-01 in milliseconds. A smaller number is seconds taken for milliseconds, most likely: as milliseconds, every date
/// of this century in seconds lies in the January of 1970, and the message would be delivered at once.
const DOUBTFUL_BEFORE_MS: u64 = 978_307_200_000;

/// When a record was published, unless that cannot be: it may be a producer's word, in seconds, or that of a clock that was
/// never set.
pub(super) fn published(at: UnixMillis) -> Result<UnixMillis, String> {
    match at.get() {
        DOUBTFUL_BEFORE_MS.. if at <= UnixMillis::MAX => Ok(at),
        ms => Err(format!("no delay counts from when it was published: {ms} ms since 1970")),
    }
}

/// Reads a point in time; `name` is that of its header.
pub(super) fn moment(name: &str, text: &str) -> Result<UnixMillis, String> {
    let wrong = |why: &str| format!("delayq-{name} is {text:?}: {why}");
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        let ms = text.parse().ok().filter(|&ms| UnixMillis::new(ms) <= UnixMillis::MAX);
        let ms = ms.ok_or_else(|| wrong("it is too far in the future"))?;
        return match ms {
            ..DOUBTFUL_BEFORE_MS => Err(wrong("milliseconds since 1970 before 2001; were seconds meant?")),
            _ => Ok(UnixMillis::new(ms)),
        };
    }
    let at: Timestamp = text.parse().map_err(|_| {
        wrong("expected milliseconds since 1970, or RFC 3339 such as 2026-12-24T18:00:00+01:00")
    })?;
    Some(UnixMillis::from(at)).filter(|at| at.get() > 0).ok_or_else(|| wrong("it is before 1970"))
}

/// Reads a delay, which counts from when the record was published, so that its repeat asks for the same due time; where that
/// is not known, from the put.
pub(super) fn due(text: &str, published: Option<UnixMillis>) -> Result<Due, String> {
    let delay: HumanDuration = text.parse().map_err(|error| format!("delayq-delay is {text:?}: {error}"))?;
    Ok(match published.map(self::published).transpose()? {
        Some(at) => Due::At(at + *delay),
        None => Due::After(*delay),
    })
}
