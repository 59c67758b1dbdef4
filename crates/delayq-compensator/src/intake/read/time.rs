//! Times in records: milliseconds since 1970 or RFC 3339, and delays with a unit.

use delayq::{Due, UnixMillis};
use delayq_service::config::HumanDuration;
use delayq_service::when;

/// Time of publication, unless that is impossible: the time may come from a producer, in seconds, or from a clock that was
/// never set.
pub(super) fn published(at: UnixMillis) -> Result<UnixMillis, String> {
    when::plausible(at)
        .map_err(|_| format!("the delay cannot count from the time of publication: {at} ms since 1970"))
}

/// Reads a point in time; `name` is the header's name.
pub(super) fn moment(name: &str, text: &str) -> Result<UnixMillis, String> {
    when::moment(text).map_err(|why| format!("delayq-{name} is {text:?}: {why}"))
}

/// Reads a delay. The delay counts from the publication, so that a repeat asks for the same due time; without a time of
/// publication, from the put.
pub(super) fn due(text: &str, published: Option<UnixMillis>) -> Result<Due, String> {
    let delay: HumanDuration = text.parse().map_err(|error| format!("delayq-delay is {text:?}: {error}"))?;
    Ok(match published.map(self::published).transpose()? {
        Some(at) => Due::At(at + *delay),
        None => Due::After(*delay),
    })
}
