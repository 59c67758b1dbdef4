//! `Retry-After`: the rest that an endpoint asks for, in seconds or as a date.

use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The delay requested by these headers. A date is compared with the answer's own `Date`, so that the two clocks may
/// differ, else with `now_secs` of this host. A past date means no wait; an unreadable value is ignored.
pub(super) fn wait(headers: &HeaderMap, now_secs: u64) -> Option<Duration> {
    let text = |name| headers.get(name)?.to_str().ok().map(str::trim);
    let asked = text(RETRY_AFTER)?;
    if asked.bytes().all(|byte| byte.is_ascii_digit()) {
        return asked.parse().ok().map(Duration::from_secs);
    }
    let at = httpdate::parse_http_date(asked).ok()?;
    let answered = text(DATE).and_then(|date| httpdate::parse_http_date(date).ok());
    let from: SystemTime = answered.unwrap_or(UNIX_EPOCH + Duration::from_secs(now_secs));
    Some(at.duration_since(from).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::header::HeaderValue;

    #[test]
    fn a_wait_is_seconds_or_a_date() {
        const TEN: u64 = 784_116_000; // Sun, 06 Nov 1994 10:00:00 GMT
        let secs = |secs| Some(Duration::from_secs(secs));
        for (asked, date, expected) in [
            ("120", None, secs(120)),
            (" 7 ", None, secs(7)),
            ("0", None, secs(0)),
            ("-1", None, None),
            ("1.5", None, None),
            ("soon", None, None),
            ("", None, None),
            ("Sun, 06 Nov 1994 10:01:30 GMT", None, secs(90)),
            ("Sunday, 06-Nov-94 10:01:30 GMT", None, secs(90)),
            ("Sun Nov  6 10:01:30 1994", None, secs(90)),
            ("Sun, 06 Nov 1994 09:00:00 GMT", None, secs(0)),
            ("Sun, 06 Nov 1994 10:01:30 GMT", Some("Sun, 06 Nov 1994 10:01:20 GMT"), secs(10)),
            ("Sun, 06 Nov 1994 10:01:30 GMT", Some("yesterday"), secs(90)),
            ("Sun, 06 Nov 1994 10:01:30 CET", None, None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, HeaderValue::from_static(asked));
            if let Some(date) = date {
                headers.insert(DATE, HeaderValue::from_static(date));
            }
            assert_eq!(wait(&headers, TEN), expected, "{asked} {date:?}");
        }
        assert_eq!(wait(&HeaderMap::new(), TEN), None);
    }
}
