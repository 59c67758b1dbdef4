//! Putting events of CloudEvents 1.0, as a JSON document or in binary mode: attributes as headers `ce-NAME`, the data as the body.
//!
//! Attributes `delayqNAME` describe the message, as headers `Delayq-NAME` do; the others stay with the message, so that it is
//! delivered as the same event.

use super::described::Described;
use super::names::{PutNames, fault};
use crate::input::Ask;
use crate::problem::Problem;
use delayq::{Message, MessageId, Topic};
use delayq_service::events::{ABOUT_A_DELIVERY, CARRIED, CloudEvent, REQUIRED, VERSION, asks};
use percent_encoding::percent_decode_str;
use std::collections::BTreeMap;

/// The attributes that the document has, and the binary mode has not.
const OF_DOCUMENTS: [&str; 3] = ["datacontenttype", "data", "data_base64"];

/// The attributes among the headers of a request, without data.
pub(super) fn in_headers(ask: &Ask) -> Result<Option<CloudEvent>, Problem> {
    let mut attributes = BTreeMap::new();
    for (header, value) in &ask.headers {
        let header = header.as_str();
        let Some(name) = header.strip_prefix(CARRIED) else { continue };
        if OF_DOCUMENTS.contains(&name) {
            return Err(Problem::invalid(
                header,
                "with attributes in headers, the body is the data, of Content-Type",
            ));
        }
        let text = std::str::from_utf8(value.as_bytes()).ok();
        let text = text.and_then(|text| percent_decode_str(text).decode_utf8().ok());
        let text = text.ok_or_else(|| Problem::invalid(header, "not UTF-8"))?.into_owned();
        if attributes.insert(name.to_owned(), text).is_some() {
            return Err(Problem::invalid(header, "given twice"));
        }
    }
    match attributes.keys().next() {
        None => Ok(None),
        Some(_) if attributes.contains_key(VERSION) => {
            let content_type = ask.header("content-type")?.map(str::to_owned);
            Ok(Some(CloudEvent {
                attributes: attributes.into_iter().collect(),
                content_type,
                data: Vec::new(),
            }))
        }
        Some(name) => Err(Problem::invalid(
            &format!("{CARRIED}{name}"),
            "not part of an event: ce-specversion is missing",
        )),
    }
}

pub(super) fn read(document: &[u8]) -> Result<CloudEvent, Problem> {
    CloudEvent::read(document).map_err(|why| Problem::new(fault(document), why))
}

/// Refuses what an event in headers would ask for: this one is a document.
pub(super) fn asks_nothing(ask: &Ask) -> Result<(), Problem> {
    let mut names = ask.headers.keys().map(axum::http::HeaderName::as_str);
    let odd = names.find(|name| name.strip_prefix(CARRIED).is_some_and(|name| asks(name).is_some()));
    odd.map_or(Ok(()), |name| Err(Problem::invalid(name, "set the attribute in the document")))
}

/// The message of an event.
pub(super) fn message(event: CloudEvent, named: &PutNames, past_ok: bool) -> Result<Message, Problem> {
    let (mut described, mut carried) = (Described::new(past_ok), BTreeMap::new());
    for (name, value) in event.attributes {
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()) {
            return Err(Problem::invalid(&name, "names of attributes are lower-case letters and digits"));
        }
        match asks(&name) {
            Some(rest) if ABOUT_A_DELIVERY.contains(&rest) => {}
            Some(rest) => described.set_attribute(&name, rest, value)?,
            None => drop(carried.insert(name, value)),
        }
    }
    let attribute = |name: &str| match carried.get(name).map(String::as_str) {
        None | Some("") => Err(Problem::invalid(name, "missing: every event has this attribute")),
        Some(value) => Ok(value),
    };
    match attribute(VERSION)? {
        "1.0" => {}
        other => return Err(Problem::invalid(VERSION, format!("{other:?}, only 1.0 is supported"))),
    }
    let [id, source, kind] = REQUIRED.map(attribute);
    let (id, source, kind) = (id?, source?, kind?);
    let mut message = Message::new(topic(&described, named, kind)?, event.data);
    message = message.with_id(self::id(&described, named, (source, id))?);
    message.headers = carried.into_iter().map(|(name, value)| (format!("{CARRIED}{name}"), value)).collect();
    message.headers.extend(event.content_type.map(|kind| ("content-type".to_owned(), kind)));
    described.message(message)
}

/// Of the request, of the event, or the event's type.
fn topic(described: &Described, named: &PutNames, kind: &str) -> Result<Topic, Problem> {
    match (&named.topic, described.get::<Topic>("topic")?) {
        (Some(topic), Some(asked)) if *topic != asked => {
            Err(Problem::invalid("delayqtopic", "the topic of the event differs from the topic in the path"))
        }
        (Some(topic), _) => Ok(topic.clone()),
        (None, Some(asked)) => Ok(asked),
        (None, None) => kind.parse().map_err(|why| {
            Problem::invalid("type", format!("{why}; the type is the topic unless delayqtopic names one"))
        }),
    }
}

/// Of the request, or of the event; else only source and id together identify an event.
fn id(described: &Described, named: &PutNames, (source, id): (&str, &str)) -> Result<MessageId, Problem> {
    match (&named.id, described.get::<MessageId>("id")?) {
        (Some(id), Some(asked)) if *id != asked => {
            Err(Problem::invalid("delayqid", "the id of the event differs from the id of the request"))
        }
        (Some(id), _) => Ok(id.clone()),
        (None, Some(asked)) => Ok(asked),
        (None, None) => format!("{source}#{id}").parse().map_err(|why| {
            Problem::invalid(
                "id",
                format!("{why}; source and id are the message's id unless delayqid names one"),
            )
        }),
    }
}
