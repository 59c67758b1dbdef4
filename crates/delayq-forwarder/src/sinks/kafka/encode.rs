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

/// Whether a text is the name of a topic.
pub(super) fn is_topic(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    (1..=249).contains(&text.len()) && text.chars().all(plain) && text != "." && text != ".."
}
