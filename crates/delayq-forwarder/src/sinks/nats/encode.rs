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
    // Its names and values are plain ASCII and need no check.
    for (name, value) in parcel.about.headers() {
        headers.insert(HeaderName::from_static(name), value.into_owned());
    }
    for (name, value) in parcel.headers.iter().filter(|(name, _)| !commands_the_server(name)) {
        let wrong = |error: String| format!("NATS cannot carry the header {name}: {error}");
        let key = HeaderName::from_str(name).map_err(|error| wrong(error.to_string()))?;
        let value = HeaderValue::from_str(value).map_err(|error| wrong(error.to_string()))?;
        headers.append(key, value);
    }
    Ok(headers)
}

/// Whether a header is a command to the server, such as `Nats-Rollup`, which purges a stream. Only this sink sets any.
fn commands_the_server(name: &str) -> bool {
    name.as_bytes().get(..5).is_some_and(|start| start.eq_ignore_ascii_case(b"nats-"))
}

/// Checks that a text is a subject that messages may be published to: none of the server's own, such as `$JS.API.…`,
/// which deletes streams, or `_INBOX.…`, where requests await their answers.
///
/// # Errors
/// Why it is not.
pub(super) fn subject(text: &str) -> Result<(), String> {
    let plain = !text.is_empty()
        && text.split('.').all(|token| !token.is_empty() && token != "*" && token != ">")
        && !text.contains(|c: char| c.is_whitespace() || c.is_control());
    if !plain {
        return Err(format!("`{text}` is not a subject that can be published to"));
    }
    let first = text.split('.').next().unwrap_or_default();
    if first.starts_with('$') || ["_INBOX", "_R_", "_GR_"].contains(&first) {
        return Err(format!("the subject `{text}` is the server's own: nothing is delivered to {first}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_has_no_wildcards_spaces_or_empty_parts_and_is_not_the_servers_own() {
        for (text, expected) in [
            ("a", true),
            ("a.b-c", true),
            ("a.$JS.API", true),
            ("_INBOXES.a", true),
            ("", false),
            ("a..b", false),
            ("a.*", false),
            (">", false),
            ("a b", false),
            ("$JS.API.STREAM.DELETE.S", false),
            ("$SYS.REQ.USER.INFO", false),
            ("$KV.bucket.key", false),
            ("_INBOX.abc.1", false),
            ("_R_.abc", false),
        ] {
            assert_eq!(subject(text).is_ok(), expected, "{text}");
        }
    }

    #[test]
    fn a_header_that_commands_the_server_is_known_in_any_case() {
        for (name, expected) in
            [("Nats-Rollup", true), ("nats-ttl", true), ("natsy", false), ("x-nats-x", false)]
        {
            assert_eq!(commands_the_server(name), expected, "{name}");
        }
    }
}
