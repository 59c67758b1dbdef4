//! A message in SQS's form, and back.
//!
//! Headers are attributes. A message has at most ten, with plain names and texts that are not empty; all other headers are
//! in the attribute `delayq-more-headers`, as JSON: an array of pairs of name and value. A body is a text that is not empty;
//! another body is in base64, or a dash, and the attribute `delayq-encoding` says so.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Maximum number of attributes of a message.
const MOST: usize = 10;
const REST: &str = "delayq-more-headers";
const ENCODING: &str = "delayq-encoding";
const BASE64: &str = "base64";
const EMPTY: &str = "empty";

/// A message that was received.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct SqsRecord {
    /// The id, which the server made.
    pub message_id: String,
    /// The handle of this receipt.
    pub receipt_handle: String,
    /// The server's own data.
    #[serde(default)]
    pub attributes: BTreeMap<String, String>,
    #[serde(default)]
    message_attributes: BTreeMap<String, Attribute>,
    body: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Attribute {
    string_value: Option<String>,
    binary_value: Option<String>,
}

/// The headers and the body of a received message; or why the message is damaged.
pub type SqsContent = (Vec<(String, Vec<u8>)>, Vec<u8>, Option<&'static str>);

/// The text of a body, and the encoding if there is one.
pub(super) fn text_of(body: &[u8]) -> (Cow<'_, str>, Option<&'static str>) {
    match std::str::from_utf8(body) {
        Ok("") => ("-".into(), Some(EMPTY)),
        Ok(text) if is_plain(text) => (text.into(), None),
        _ => (STANDARD.encode(body).into(), Some(BASE64)),
    }
}

/// The attributes of a message with these headers and encoding, and their size in bytes.
pub(super) fn attributes(
    headers: &[(Cow<'_, str>, Cow<'_, [u8]>)],
    encoding: Option<&str>,
) -> (Value, usize) {
    let (mut fitting, mut rest) = (Vec::new(), Vec::new());
    for (name, value) in headers {
        let is_new = fitting.iter().all(|(other, _): &(&str, Attributed<'_>)| *other != name.as_ref());
        match Attributed::of(value).filter(|_| is_new && is_name(name)) {
            Some(value) => fitting.push((name, value)),
            None => rest.push((name.as_ref(), String::from_utf8_lossy(value))),
        }
    }
    // Bytes have no place in JSON: they come first.
    fitting.sort_by_key(|(_, value)| !matches!(value, Attributed::Bytes(_)));
    let room = MOST - usize::from(encoding.is_some());
    if fitting.len() + usize::from(!rest.is_empty()) > room {
        rest.extend(fitting.split_off(room - 1).into_iter().map(|(name, value)| (name, value.text())));
    }
    if let Some(encoding) = encoding {
        fitting.push((ENCODING, Attributed::Text(encoding)));
    }
    let rest = if rest.is_empty() { String::new() } else { json!(rest).to_string() };
    if !rest.is_empty() {
        fitting.push((REST, Attributed::Text(&rest)));
    }
    let bytes = fitting.iter().map(|(name, value)| name.len() + value.bytes()).sum();
    (
        fitting
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value.json()))
            .collect::<Map<_, _>>()
            .into(),
        bytes,
    )
}

/// The value of an attribute.
enum Attributed<'a> {
    Text(&'a str),
    Bytes(&'a [u8]),
}

// === impl Attributed ===

impl<'a> Attributed<'a> {
    /// `None`: the value is none of an attribute.
    fn of(value: &'a [u8]) -> Option<Self> {
        match std::str::from_utf8(value) {
            Ok(text) if !text.is_empty() && is_plain(text) => Some(Self::Text(text)),
            Ok(_) => None,
            Err(_) => Some(Self::Bytes(value)),
        }
    }

    fn text(&self) -> Cow<'a, str> {
        match *self {
            Self::Text(text) => text.into(),
            Self::Bytes(bytes) => String::from_utf8_lossy(bytes),
        }
    }

    /// With the name of the type.
    const fn bytes(&self) -> usize {
        "String".len()
            + match self {
                Self::Text(text) => text.len(),
                Self::Bytes(bytes) => bytes.len(),
            }
    }

    fn json(&self) -> Value {
        match self {
            Self::Text(text) => json!({ "DataType": "String", "StringValue": text }),
            Self::Bytes(bytes) => json!({ "DataType": "Binary", "BinaryValue": STANDARD.encode(bytes) }),
        }
    }
}

/// True if all characters are those of SQS, which are XML's.
fn is_plain(text: &str) -> bool {
    text.chars().all(|c| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{fffd}' | '\u{10000}'..))
}

/// True if this can be the name of an attribute of a user.
fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let lower = name.to_ascii_lowercase();
    (1..=256).contains(&name.len())
        && name.chars().all(plain)
        && !name.starts_with('.')
        && !name.ends_with('.')
        && !name.contains("..")
        && !["aws.", "amazon.", REST, ENCODING].iter().any(|own| lower.starts_with(own))
}

// === impl SqsRecord ===

impl SqsRecord {
    /// The headers and the body, as they were before [`SqsLetter`](super::SqsLetter) put them in SQS's form. Damage is
    /// reported, and the message is then as it is.
    #[must_use]
    pub fn content(mut self) -> SqsContent {
        let (mut damage, mut headers) = (None, Vec::new());
        let encoding = self.message_attributes.remove(ENCODING).and_then(|found| found.string_value);
        let body = match encoding.as_deref() {
            None => self.body.into_bytes(),
            Some(EMPTY) => Vec::new(),
            Some(BASE64) => STANDARD.decode(&self.body).unwrap_or_else(|_| {
                damage = Some("delayq-encoding says base64, and the body is not");
                self.body.into_bytes()
            }),
            Some(_) => {
                damage = Some("delayq-encoding is neither base64 nor empty");
                self.body.into_bytes()
            }
        };
        if let Some(rest) = self.message_attributes.remove(REST).and_then(|found| found.string_value) {
            match serde_json::from_str::<Vec<(String, String)>>(&rest) {
                Ok(rest) => headers.extend(rest.into_iter().map(|(name, value)| (name, value.into_bytes()))),
                Err(_) => damage = Some("delayq-more-headers is no array of pairs in JSON"),
            }
        }
        for (name, Attribute { string_value, binary_value }) in self.message_attributes {
            let bytes = binary_value.map(|bytes| STANDARD.decode(bytes).unwrap_or_default());
            headers.push((name, string_value.map(String::into_bytes).or(bytes).unwrap_or_default()));
        }
        (headers, body, damage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Puts a message in SQS's form and back.
    fn there_and_back(headers: &[(&str, &[u8])], body: &[u8]) -> (usize, SqsContent) {
        let own: Vec<_> = headers.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let (text, encoding) = text_of(body);
        let (attributes, _) = attributes(&own, encoding);
        let count = attributes.as_object().unwrap().len();
        let message =
            json!({ "MessageId": "m", "ReceiptHandle": "r", "Body": text, "MessageAttributes": attributes });
        (count, serde_json::from_value::<SqsRecord>(message).unwrap().content())
    }

    #[test]
    fn any_body_and_any_header_come_back() {
        let bodies: [&[u8]; 5] = [b"{}", b"", &[0, 255], "\u{1}é".as_bytes(), "\u{ffff}".as_bytes()];
        let many: Vec<String> = (0..40).map(|n| format!("x-{n}")).collect();
        let many: Vec<(&str, &[u8])> = many.iter().map(|name| (name.as_str(), b"v".as_slice())).collect();
        let odd: [(&str, &[u8]); 6] = [
            ("a", b""),
            ("aws.x", b"v"),
            ("name with spaces", b"v"),
            ("bytes", &[0, 255]),
            ("control", b"\x01"),
            ("Delayq-More-Headers", b"v"),
        ];
        for headers in [&[][..], &[("a", b"b".as_slice())], &odd, &many, &many[..10], &many[..9]] {
            for body in bodies {
                let (count, (found, content, damage)) = there_and_back(headers, body);
                let expected: BTreeMap<_, _> =
                    headers.iter().map(|(name, value)| ((*name).to_owned(), value.to_vec())).collect();
                assert!(count <= MOST, "{count}");
                assert_eq!((found.len(), damage), (headers.len(), None));
                assert_eq!(
                    (found.into_iter().collect::<BTreeMap<_, _>>(), content),
                    (expected, body.to_vec())
                );
            }
        }
    }

    #[test]
    fn a_damaged_message_is_reported() {
        for (name, value) in [(ENCODING, "base64"), (ENCODING, "gzip"), (REST, "{}")] {
            let attributes = json!({ name: { "DataType": "String", "StringValue": value } });
            let message = json!({ "MessageId": "m", "ReceiptHandle": "r", "Body": "é", "MessageAttributes": attributes });
            let record: SqsRecord = serde_json::from_value(message).unwrap();
            assert!(record.content().2.is_some(), "{name}: {value}");
        }
    }
}
