//! One parcel as one publication.

use crate::Parcel;
use async_nats::{HeaderMap, HeaderName, HeaderValue};
use std::str::FromStr;

/// The headers of a parcel.
///
/// # Errors
/// Why NATS cannot carry one of them.
pub(super) fn headers(parcel: &Parcel) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    // Its names and values are plain: nothing of them has to be looked at.
    for (name, value) in parcel.about.headers() {
        headers.insert(HeaderName::from_static(name), value.into_owned());
    }
    for (name, value) in &parcel.headers {
        let wrong = |error: String| format!("NATS cannot carry the header {name}: {error}");
        let key = HeaderName::from_str(name).map_err(|error| wrong(error.to_string()))?;
        let value = HeaderValue::from_str(value).map_err(|error| wrong(error.to_string()))?;
        headers.append(key, value);
    }
    Ok(headers)
}

/// Whether a text is a subject that can be published to.
pub(super) fn is_subject(text: &str) -> bool {
    !text.is_empty()
        && text.split('.').all(|token| !token.is_empty() && token != "*" && token != ">")
        && !text.contains(|c: char| c.is_whitespace() || c.is_control())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_has_no_wildcards_spaces_or_empty_parts() {
        for (text, expected) in [
            ("a", true),
            ("a.b-c", true),
            ("", false),
            ("a..b", false),
            ("a.*", false),
            (">", false),
            ("a b", false),
        ] {
            assert_eq!(is_subject(text), expected, "{text}");
        }
    }
}
