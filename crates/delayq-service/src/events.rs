//! Events of CloudEvents 1.0: as a JSON document, and as a message carries one.
//!
//! A message that was put as an event has the event's attributes as headers `ce-NAME`, and the type of its data as
//! `content-type`. The attributes that ask delayq for something are not among them.

mod delivered;

pub use delivered::{DeliveredEvent, EventOrigin, rfc3339};

use crate::headers::rest_of;
use crate::put_line::payload_bytes;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, from_str};
use std::collections::BTreeMap;
use std::fmt;

/// The attribute that every event has.
pub const VERSION: &str = "specversion";

/// The attributes that every event has, besides [`VERSION`].
pub const REQUIRED: [&str; 3] = ["id", "source", "type"];

/// The prefix of an attribute among the headers of a message.
pub const CARRIED: &str = "ce-";

/// The prefix of extension attributes for delayq. Attribute names have letters and digits only.
const OWN: &str = "delayq";

const CONTENT_TYPE: &str = "datacontenttype";
const DATA: [&str; 2] = ["data", "data_base64"];

/// Rests of attributes, and of headers `delayq-NAME`, about a delivery or a dead letter: they ask for nothing, so that a
/// delivered event can be sent back.
pub const ABOUT_A_DELIVERY: [&str; 8] =
    ["attempt", "delivery", "ready", "latems", "reason", "origin", "receipt", "leaseends"];

/// An event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CloudEvent {
    /// The values as text, by name; without the type of the data.
    pub attributes: Vec<(String, String)>,
    /// The type of the data. An event without one has JSON.
    pub content_type: Option<String>,
    /// The bytes of the data; empty without data.
    pub data: Vec<u8>,
}

/// The members of an object. A repeated name is refused, because one value would be ignored.
struct Members<'d>(BTreeMap<String, &'d RawValue>);

// === impl CloudEvent ===

impl CloudEvent {
    /// Reads an event that is a JSON document.
    ///
    /// # Errors
    /// Why the document is no event, without a word of it.
    pub fn read(document: &[u8]) -> Result<Self, String> {
        let wrong = |why: &str| format!("not a JSON event: {why}");
        if document.trim_ascii_start().first() != Some(&b'{') {
            return Err(wrong("not a JSON object"));
        }
        let Members(event) = serde_json::from_slice(document).map_err(|error| wrong(&error.to_string()))?;
        let text_of = |name: &str| match event.get(name) {
            Some(value) => text(name, value).map_err(|why| wrong(&why)),
            None => Ok(None),
        };
        if event.get(VERSION).is_none_or(|version| version.get() == "null") {
            return Err(wrong("specversion is missing"));
        }
        let content_type = text_of(CONTENT_TYPE)?;
        let data = match (event.get("data"), event.get("data_base64")) {
            (Some(_), Some(_)) => return Err(wrong("both data and data_base64 are set")),
            (Some(data), None) => data_of(data, content_type.as_deref()).map_err(|why| wrong(&why))?,
            (None, Some(_)) => {
                let text = text_of("data_base64")?.unwrap_or_default();
                STANDARD.decode(text).map_err(|error| wrong(&format!("data_base64: {error}")))?
            }
            (None, None) => Vec::new(),
        };
        let mut attributes = Vec::new();
        for name in event.keys().filter(|name| *name != CONTENT_TYPE && !DATA.contains(&name.as_str())) {
            attributes.extend(text_of(name)?.map(|value| (name.clone(), value)));
        }
        Ok(Self { attributes, content_type, data })
    }

    /// The event as which a message was put, by the headers of the message.
    #[must_use]
    pub fn carried(headers: &[(String, String)]) -> Option<Vec<(&str, &str)>> {
        let attributes: Vec<(&str, &str)> = headers
            .iter()
            .filter_map(|(name, value)| Some((rest_of(name, CARRIED)?, value.as_str())))
            .collect();
        let has = |wanted: &str| attributes.iter().any(|(name, _)| name.eq_ignore_ascii_case(wanted));
        (has(VERSION) && REQUIRED.into_iter().all(has)).then_some(attributes)
    }
}

/// The rest of an attribute's name after delayq's prefix.
#[must_use]
pub fn asks(name: &str) -> Option<&str> {
    rest_of(name, OWN)
}

/// Writes an event as a JSON document: the data as JSON or text where it is that, and else in base64. `is_lenient`: text that
/// should be JSON is written as a string.
fn document<'a>(
    attributes: impl IntoIterator<Item = (&'a str, &'a str)>,
    content_type: Option<&'a str>,
    data: &[u8],
    is_lenient: bool,
) -> Vec<u8> {
    let attributes = attributes.into_iter().chain(content_type.map(|kind| (CONTENT_TYPE, kind)));
    let mut event: Map<String, Value> =
        attributes.map(|(name, value)| (name.to_owned(), value.into())).collect();
    let is_json = content_type.is_none_or(names_json);
    let raw = std::str::from_utf8(data).ok().and_then(|text| match from_str::<&RawValue>(text) {
        Ok(raw) if is_json => Some(raw.to_owned()),
        _ if is_json && !is_lenient => None,
        _ => Some(to_raw_value(text).expect("text is JSON")),
    });
    let Some(raw) = raw.filter(|_| !data.is_empty() || is_lenient) else {
        if !data.is_empty() {
            event.insert("data_base64".to_owned(), STANDARD.encode(data).into());
        }
        return Value::Object(event).to_string().into();
    };
    let head = Value::Object(event).to_string();
    let start = head.strip_suffix('}').expect("an object ends so");
    format!("{start},\"data\":{raw}}}").into()
}

fn names_json(content_type: &str) -> bool {
    content_type.to_ascii_lowercase().contains("json")
}

/// The text of an attribute; `None` for null.
fn text(name: &str, value: &RawValue) -> Result<Option<String>, String> {
    match from_str(value.get()) {
        Ok(Value::String(text)) => Ok(Some(text)),
        Ok(Value::Null) => Ok(None),
        Ok(value @ (Value::Number(_) | Value::Bool(_))) => Ok(Some(value.to_string())),
        _ => Err(format!("the attribute {name} is neither a text nor a number")),
    }
}

/// JSON as written; the text of a string where the content is something else.
fn data_of(data: &RawValue, content_type: Option<&str>) -> Result<Vec<u8>, String> {
    if content_type.is_none_or(names_json) {
        return Ok(data.get().as_bytes().to_vec());
    }
    payload_bytes(data).map_err(|why| format!("data: {why}; write bytes as data_base64"))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_that_is_carried_is_written_as_the_event_that_was_read() {
        for rest in [
            r#""data":{"n":1e400,"a":[null, 12345678901234567890.125]}"#,
            r#""data":null"#,
            r#""data":"text""#,
            r#""datacontenttype":"text/plain","data":"t\u00e9\"xt""#,
            r#""datacontenttype":"image/png","data_base64":"AP8=""#,
            r#""data_base64":"aGVsbG8=""#,
            r#""datacontenttype":"application/json","data_base64":"e30=""#,
            r#""subject":"a b""#,
        ] {
            let document =
                format!(r#"{{"id":"1","source":"/s","specversion":"1.0","type":"t","n":"é",{rest}}}"#);
            let read = CloudEvent::read(document.as_bytes()).unwrap();
            let headers: Vec<(String, String)> =
                read.attributes.iter().map(|(name, value)| (format!("ce-{name}"), value.clone())).collect();
            let carried = CloudEvent::carried(&headers).unwrap();
            let written = super::document(carried, read.content_type.as_deref(), &read.data, false);
            assert_eq!(
                CloudEvent::read(&written).unwrap(),
                read,
                "{rest}: {}",
                String::from_utf8_lossy(&written)
            );
        }
    }

    #[test]
    fn headers_that_lack_an_attribute_of_every_event_are_no_event() {
        let all = [VERSION, "id", "source", "type"];
        let headers = |names: &[&str]| -> Vec<(String, String)> {
            names.iter().map(|name| (format!("Ce-{name}"), "x".to_owned())).collect()
        };
        assert_eq!(CloudEvent::carried(&headers(&all)).map(|attributes| attributes.len()), Some(4));
        for missing in all {
            let rest: Vec<&str> = all.into_iter().filter(|name| *name != missing).collect();
            assert_eq!(CloudEvent::carried(&headers(&rest)), None, "{missing}");
        }
    }
}
