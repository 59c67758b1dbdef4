//! One parcel as the headers of one record.

use crate::Parcel;
use rdkafka::message::{Header, OwnedHeaders};

/// Every header of a parcel.
pub(super) fn headers(parcel: &Parcel) -> OwnedHeaders {
    let all = OwnedHeaders::new_with_capacity(7 + parcel.headers.len());
    parcel.all_headers().fold(all, |headers, (name, value)| {
        headers.insert(Header { key: name, value: Some(value.as_bytes()) })
    })
}

/// Checks that a text is the name of a topic, and not of one of the brokers' own, such as `__consumer_offsets`.
///
/// # Errors
/// Why it is not.
pub(super) fn topic(text: &str) -> Result<(), String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if !(1..=249).contains(&text.len()) || !text.chars().all(plain) || text == "." || text == ".." {
        return Err(format!("`{text}` is not the name of a topic"));
    }
    if text.starts_with("__") {
        return Err(format!(
            "the topic `{text}` is internal: nothing is delivered to one that begins with __"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_is_plain_and_not_internal() {
        for (text, expected) in [
            ("a", true),
            ("_schemas.v1-x", true),
            ("", false),
            ("..", false),
            ("a b", false),
            ("__consumer_offsets", false),
            ("__transaction_state", false),
        ] {
            assert_eq!(topic(text).is_ok(), expected, "{text}");
        }
    }
}
