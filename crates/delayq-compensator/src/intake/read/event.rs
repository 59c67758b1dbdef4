//! CloudEvents 1.0: attributes as headers, or the whole event as a JSON document.

use super::content::Content;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use delayq_service::headers::{STRUCTURED_EVENT, rest_of};
use delayq_service::put_line::payload_bytes;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::fmt;

pub(super) const CONTENT_TYPE: &str = "content-type";
/// The attribute that every event has.
pub(super) const VERSION: &str = "specversion";
/// The prefix of extension attributes for delayq. Attribute names have letters and digits only.
const OWN: &str = "delayq";

/// An event as a document.
#[derive(Clone, Copy, Debug)]
pub(super) struct Structured;

/// The members of an object. A repeated name is refused, because one value would be ignored.
struct Members<'d>(BTreeMap<String, &'d RawValue>);

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

/// The rest of an attribute's name after delayq's prefix.
pub(super) fn asks(name: &str) -> Option<&str> {
    rest_of(name, OWN)
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
    content.carried.headers.push((format!("ce-{}", name.to_ascii_lowercase()), value));
    Ok(())
}

/// Reads an event as a document.
pub(super) fn structured(body: &[u8]) -> Result<Content, String> {
    let wrong = |why: &str| format!("not a JSON event: {why}");
    if body.trim_ascii_start().first() != Some(&b'{') {
        return Err(wrong("not a JSON object"));
    }
    let Members(event) = serde_json::from_slice(body).map_err(|error| wrong(&error.to_string()))?;
    let mut content = Content::default();
    content.asked.is_event = true;
    let text_of = |name: &str, value: &RawValue| match serde_json::from_str(value.get()) {
        Ok(serde_json::Value::String(text)) => Ok(Some(text)),
        Ok(serde_json::Value::Null) => Ok(None),
        Ok(value @ (serde_json::Value::Number(_) | serde_json::Value::Bool(_))) => {
            Ok(Some(value.to_string()))
        }
        _ => Err(wrong(&format!("the attribute {name} is neither a text nor a number"))),
    };
    if event.get(VERSION).is_none_or(|version| version.get() == "null") {
        return Err(wrong("specversion is missing"));
    }
    let kind = match event.get("datacontenttype") {
        Some(kind) => text_of("datacontenttype", kind)?,
        None => None,
    };
    match (event.get("data"), event.get("data_base64")) {
        (Some(_), Some(_)) => return Err(wrong("both data and data_base64 are set")),
        (Some(data), None) => {
            content.carried.payload = payload(data, kind.as_deref()).map_err(|why| wrong(&why))?;
        }
        (None, Some(data)) => {
            let text = text_of("data_base64", data)?.unwrap_or_default();
            content.carried.payload =
                STANDARD.decode(text).map_err(|error| wrong(&format!("data_base64: {error}")))?;
        }
        (None, None) => {}
    }
    if let Some(kind) = kind {
        content.carried.headers.push((CONTENT_TYPE.to_owned(), kind));
    }
    for (name, value) in &event {
        if !["data", "data_base64", "datacontenttype"].contains(&name.as_str())
            && let Some(value) = text_of(name, value)?
        {
            attribute(&mut content, name, value)?;
        }
    }
    Ok(content)
}

// === impl Members ===

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
        let mut members = BTreeMap::new();
        while let Some((name, value)) = map.next_entry::<String, &RawValue>()? {
            if members.contains_key(&name) {
                return Err(A::Error::custom(format_args!("the member {name:?} occurs twice")));
            }
            members.insert(name, value);
        }
        Ok(Members(members))
    }
}

/// JSON as written; the text of a string where the content is something else.
fn payload(data: &RawValue, kind: Option<&str>) -> Result<Vec<u8>, String> {
    if kind.is_none_or(|kind| kind.to_ascii_lowercase().contains("json")) {
        return Ok(data.get().as_bytes().to_vec());
    }
    payload_bytes(data).map_err(|why| format!("data: {why}; write bytes as data_base64"))
}
