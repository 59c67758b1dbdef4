//! One parcel as one record.

use crate::Parcel;
use delayq_service::brokers::KafkaLetter;
use rdkafka::message::{Header, OwnedHeaders};

pub(super) fn letter(parcel: &Parcel) -> KafkaLetter<'_> {
    let all = OwnedHeaders::new_with_capacity(7 + parcel.headers.len());
    let headers = parcel.all_headers().fold(all, |headers, (name, value)| {
        headers.insert(Header { key: name, value: Some(value.as_bytes()) })
    });
    KafkaLetter {
        topic: &parcel.destination,
        key: parcel.key.as_deref().map(str::as_bytes),
        partition: parcel.partition,
        headers,
        body: &parcel.body,
        at_ms: Some(i64::try_from(parcel.about.ready.millis().get()).unwrap_or(i64::MAX)),
    }
}
