//! A message of a stream as a record.

use crate::intake::record::BrokerRecord;
use async_nats::jetstream::Message;
use async_nats::jetstream::message::Info;
use delayq::UnixMillis;
use delayq_service::brokers::commands_nats;

/// The record of a message. The client keeps headers in no order, so headers are sorted: the same message gives the same
/// record.
pub(super) fn record(message: &Message, info: &Info<'_>) -> BrokerRecord {
    let mut headers: Vec<(String, Vec<u8>)> = message
        .headers
        .iter()
        .flat_map(|headers| headers.iter())
        .filter(|(name, _)| !commands_nats(name.as_ref()))
        .flat_map(|(name, values)| {
            values.iter().map(|value| (name.to_string(), value.as_str().as_bytes().to_vec()))
        })
        .collect();
    headers.sort_by(|(one, _), (other, _)| one.cmp(other));
    let published = u64::try_from(info.published.unix_timestamp_nanos() / 1_000_000).ok();
    BrokerRecord {
        headers,
        body: message.payload.to_vec(),
        at: published.map(UnixMillis::new),
        // `Nats-Msg-Id` is none: the stream drops a second record with the same value, such as the message's cancel.
        is_repeat: false,
        ..BrokerRecord::default()
    }
}
