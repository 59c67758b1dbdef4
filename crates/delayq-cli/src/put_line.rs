//! A message as one line of NDJSON, for `delayq put --from`.
//!
//! ```json
//! {"topic":"orders","id":"order-17","group":"user-5","due":"+30m","payload":{"order":17}}
//! ```
//! `due` is any time that the command line takes, or milliseconds since the epoch as a number; without one the message is
//! due at once. `payload` is a string, taken as its text, or any other JSON, taken as it is written; bytes come as
//! `payload_base64`.

use crate::when::When;
use base64::Engine as _;
use delayq::{Due, Message, Topic};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'l> {
    topic: Option<Topic>,
    id: Option<String>,
    group: Option<String>,
    #[serde(borrow)]
    due: Option<&'l RawValue>,
    #[serde(borrow)]
    payload: Option<&'l RawValue>,
    payload_base64: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(borrow)]
    expires: Option<&'l RawValue>,
    #[serde(default)]
    max_attempts: u16,
    #[serde(default)]
    replace: bool,
}

/// The message of a line; `topic` is for lines that name none, `past_ok` for times that [`When::due`] doubts.
///
/// # Errors
/// A sentence that says what is wrong with the line.
pub fn parse(line: &[u8], topic: Option<&Topic>, past_ok: bool) -> Result<Message, String> {
    let text = std::str::from_utf8(line).map_err(|error| format!("it is not UTF-8: {error}"))?;
    let line: Line<'_> = serde_json::from_str(text).map_err(|error| column(&error))?;
    let topic = line.topic.or_else(|| topic.cloned());
    let topic = topic.ok_or("it has no \"topic\", and none was given as an argument")?;
    let payload = match (line.payload, &line.payload_base64) {
        (Some(_), Some(_)) => return Err("it has both \"payload\" and \"payload_base64\"".to_owned()),
        (Some(raw), None) => payload_bytes(raw),
        (None, Some(text)) => base64::engine::general_purpose::STANDARD
            .decode(text)
            .map_err(|error| format!("payload_base64: {error}"))?,
        (None, None) => Vec::new(),
    };
    let mut message = Message::new(topic, payload).max_attempts(line.max_attempts);
    if let Some(raw) = line.due {
        message = message.due(due("due", raw, past_ok)?);
    }
    if let Some(raw) = line.expires {
        match due("expires", raw, past_ok)? {
            Due::At(at) => message = message.expires(at),
            Due::After(_) => return Err("expires: write an absolute time".to_owned()),
        }
    }
    if let Some(id) = line.id {
        message = message.with_id(id.parse().map_err(|error| format!("{error}"))?);
    }
    if let Some(group) = line.group {
        message = message.group(group).map_err(|error| error.to_string())?;
    }
    for (name, value) in line.headers {
        message = message.header(name, value);
    }
    Ok(if line.replace { message.replace() } else { message })
}

/// The bytes of a payload that is written as JSON: a string is its text, anything else is itself.
pub fn payload_bytes(raw: &RawValue) -> Vec<u8> {
    match serde_json::from_str::<String>(raw.get()) {
        Ok(text) => text.into_bytes(),
        Err(_) => raw.get().as_bytes().to_vec(),
    }
}

fn due(field: &str, raw: &RawValue, past_ok: bool) -> Result<Due, String> {
    let text = serde_json::from_str::<String>(raw.get()).unwrap_or_else(|_| raw.get().to_owned());
    text.parse::<When>().and_then(|when| when.due(past_ok)).map_err(|fault| format!("{field}: {fault}"))
}

/// A line's fault without serde's "at line 1": the caller knows which line it is.
fn column(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let what = text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what);
    let not_json = if error.is_data() { "" } else { "it is not JSON: " };
    let column = if error.column() > 0 { format!(" (column {})", error.column()) } else { String::new() };
    format!("{not_json}{what}{column}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use delayq::UnixMillis;
    use std::time::Duration;

    fn topic() -> Topic {
        Topic::new("orders").unwrap()
    }

    #[test]
    fn a_line_becomes_the_message_that_the_arguments_would_make() {
        let line = br#"{"id":"a","group":"g","due":"+30m","payload":{"b":1, "a":2},"headers":{"h":"v"},"replace":true}"#;
        let expected = Message::new(topic(), r#"{"b":1, "a":2}"#).after(Duration::from_secs(1800));
        let expected = expected.id("a").unwrap().group("g").unwrap().header("h", "v").replace();
        assert_eq!(parse(line, Some(&topic()), false), Ok(expected));
        let line = br#"{"topic":"t","due":1800000000000,"payload_base64":"AAH/"}"#;
        let expected =
            Message::new(Topic::new("t").unwrap(), [0, 1, 255]).at(UnixMillis::new(1_800_000_000_000));
        assert_eq!(parse(line, Some(&topic()), false), Ok(expected));
        assert_eq!(parse(br#"{"payload":"text"}"#, Some(&topic()), false), Ok(Message::new(topic(), "text")));
    }

    #[test]
    fn each_fault_of_a_line_is_named() {
        for (line, expected) in [
            (&b"{"[..], "it is not JSON: EOF while parsing an object"),
            (b"rubbish", "it is not JSON: expected value (column 1)"),
            (b"[]", "invalid length 0"),
            (b"{}", "it has no \"topic\""),
            (b"\xff\xfe", "it is not UTF-8"),
            (br#"{"topic":"a b"}"#, "topic \"a b\": only ASCII letters"),
            (br#"{"topic":""}"#, "it is empty"),
            (br#"{"topic":"t","id":""}"#, "id \"\": it is empty"),
            (br#"{"topic":"t","id":"a\u0000b"}"#, "control character"),
            (br#"{"topic":"t","group":"a\r\n"}"#, "control character"),
            (br#"{"topic":"t","due":-1}"#, "due: -1 ms is not between"),
            (br#"{"topic":"t","due":0}"#, "due: 0 ms is not between"),
            (br#"{"topic":"t","due":9007199254740992}"#, "due: 9007199254740992 ms is not between"),
            (br#"{"topic":"t","due":1800000000}"#, "due: 1800000000 ms since the epoch is 1970-01-21"),
            (br#"{"topic":"t","due":1.5}"#, "due: \"1.5\" is not a time"),
            (br#"{"topic":"t","due":"NaN"}"#, "due: \"NaN\" is not a time"),
            (br#"{"topic":"t","due":"soon"}"#, "due: \"soon\" is not a time"),
            (br#"{"topic":"t","payload":1,"payload_base64":"AA=="}"#, "both"),
            (br#"{"topic":"t","payload_base64":"?"}"#, "payload_base64"),
            (br#"{"topic":"t","delay":5}"#, "unknown field `delay`"),
        ] {
            let fault = parse(line, None, false).unwrap_err();
            assert!(fault.contains(expected), "{}: {fault}", String::from_utf8_lossy(line));
            assert!(!fault.contains("at line"), "{fault}");
        }
    }
}
