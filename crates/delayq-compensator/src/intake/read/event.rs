//! CloudEvents 1.0: attributes as headers, or the whole event as a JSON document.

use super::content::Content;
use delayq_service::events::{CARRIED, CloudEvent};
pub(super) use delayq_service::events::{VERSION, asks};
use delayq_service::headers::{STRUCTURED_EVENT, rest_of};

pub(super) const CONTENT_TYPE: &str = "content-type";

/// An event as a document.
#[derive(Clone, Copy, Debug)]
pub(super) struct Structured;

/// The form of the body, by the content type.
///
/// # Errors
/// A form of events that cannot be read.
pub(super) fn form_of(content_type: &[u8]) -> Result<Option<Structured>, String> {
    let kind = String::from_utf8_lossy(content_type);
    let kind = kind.split(';').next().unwrap_or_default().trim();
    match rest_of(kind, "application/cloudevents") {
        None => Ok(None),
        Some(_) if kind.eq_ignore_ascii_case(STRUCTURED_EVENT) => Ok(Some(Structured)),
        Some(_) => Err(format!("of structured events, only {STRUCTURED_EVENT} is supported, not {kind}")),
    }
}

/// Takes an attribute in: a request to delayq, or else a header of the message.
pub(super) fn attribute(content: &mut Content, name: &str, value: String) -> Result<(), String> {
    if let Some(asks) = asks(name) {
        return content.asked.set(asks, value);
    }
    let slot = match name {
        VERSION if value != "1.0" => return Err(format!("specversion is {value}, only 1.0 is supported")),
        "id" => Some(&mut content.asked.event_id),
        "source" => Some(&mut content.asked.event_source),
        "type" => Some(&mut content.asked.event_type),
        _ => None,
    };
    if let Some(slot) = slot
        && slot.replace(value.clone()).is_some()
    {
        return Err(format!("the attribute {name} occurs twice"));
    }
    content.carried.headers.push((format!("{CARRIED}{}", name.to_ascii_lowercase()), value));
    Ok(())
}

/// Reads an event as a document.
pub(super) fn structured(body: &[u8]) -> Result<Content, String> {
    let event = CloudEvent::read(body)?;
    let mut content = Content::default();
    content.asked.is_event = true;
    content.carried.payload = event.data;
    content.carried.headers.extend(event.content_type.map(|kind| (CONTENT_TYPE.to_owned(), kind)));
    for (name, value) in event.attributes {
        attribute(&mut content, &name, value)?;
    }
    Ok(content)
}
