//! A message as an event of CloudEvents 1.0, with what a worker needs to know as attributes `delayqNAME`.

use crate::receipts::Signer;
use axum::http::header::CONTENT_TYPE;
use delayq::UnixMillis;
use delayq::protocol::Reservation;
use delayq_service::events::{DeliveredEvent, EventOrigin, rfc3339};
use serde_json::json;

pub(super) fn document(message: &Reservation, signer: &Signer) -> Vec<u8> {
    let envelope = &message.envelope;
    let (topic, id) = (message.topic.to_string(), message.id.to_string());
    let group = envelope.group.as_ref().map(delayq::Group::as_str);
    let origin = EventOrigin { topic: &topic, id: &id, group, due: envelope.due };
    let mut event = DeliveredEvent::of(&envelope.headers, &origin);
    let headers = &envelope.headers;
    let content_type = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(CONTENT_TYPE.as_str()));
    let others = headers.iter().filter(|header| Some(*header) != content_type && !event.has(&header.0));
    let others: Vec<_> = others.map(|(name, value)| [name, value]).collect();
    let moment = |at: UnixMillis| rfc3339(at).unwrap_or_else(|| at.to_string());
    let own = [
        ("receipt", Some(signer.text(&message.receipt))),
        ("topic", Some(topic.clone())),
        ("id", Some(id.clone())),
        ("group", group.map(str::to_owned)),
        ("due", Some(moment(envelope.due))),
        ("leaseends", Some(moment(message.lease_end))),
        ("attempt", Some(envelope.attempt.to_string())),
        ("delivery", Some(envelope.delivery.to_string())),
        ("headers", (!others.is_empty()).then(|| json!(others).to_string())),
        ("zstd", envelope.zstd.then(|| "true".to_owned())),
    ];
    let own = own.into_iter().filter_map(|(name, value)| Some((format!("delayq{name}"), value?)));
    event.attributes.extend(own);
    event.document(content_type.map(|(_, kind)| kind.as_str()), &envelope.payload)
}
