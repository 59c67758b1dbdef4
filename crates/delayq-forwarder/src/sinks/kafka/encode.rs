//! One parcel as the headers of one record.

use crate::Parcel;
use rdkafka::message::{Header, OwnedHeaders};

pub(super) fn headers(parcel: &Parcel) -> OwnedHeaders {
    let all = OwnedHeaders::new_with_capacity(7 + parcel.headers.len());
    parcel.all_headers().fold(all, |headers, (name, value)| {
        headers.insert(Header { key: name, value: Some(value.as_bytes()) })
    })
}
