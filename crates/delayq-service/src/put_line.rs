//! A message as one line of NDJSON, for `delayq put --from` and the gateway.
//!
//! ```json
//! {"topic":"orders","id":"order-17","group":"user-5","due":"+30m","payload":{"order":17}}
//! ```
//! `due` is any time that the command line takes, or milliseconds since the epoch as a number; without one the message is
//! due at once. `between` is a daily window, such as `09:00-10:00 Europe/Berlin`, and `jitter` a longest delay: either moves the
//! due time by an offset that each id has to itself. `payload` is a string, taken as its text, or any other JSON, taken as it is written; bytes come as
//! `payload_base64`. `headers` is an object, or an array of `[name, value]` where their order matters or a name comes twice.
//! `expires` is a time, and `expire_after` a duration from the due time to the expiry, in its place.
//! `replace` is true for a put that replaces; `again` then says how it meets a pending message: `later`, `sooner`,
//! `content` or `within=<ms>`; `keep`; `expected=<ms>` and `hash=<16 hex digits>`.
//! A line of a backup also says what the message was when it was written: `state`, `attempt`, `delivery`, `reason`.

use crate::config::{HumanDuration, backoff, backoff_text};
use crate::when::{Spreading, When};
use base64::Engine as _;
use delayq::admin::Listed;
use delayq::protocol::{Again, Envelope};
use delayq::{Due, Message, MessageId, Topic, UnixMillis};
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use std::collections::BTreeMap;

const DEAD: &str = "dead";
/// The states of a line: of messages that a backup finds.
const STATES: [&str; 4] = ["delayed", "ready", "leased", DEAD];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PutLine<'l> {
    topic: Option<Topic>,
    id: Option<String>,
    group: Option<String>,
    #[serde(borrow)]
    due: Option<&'l RawValue>,
    between: Option<String>,
    jitter: Option<String>,
    // A null is a payload.
    #[serde(borrow, default, deserialize_with = "present")]
    payload: Option<&'l RawValue>,
    payload_base64: Option<String>,
    #[serde(borrow)]
    headers: Option<&'l RawValue>,
    #[serde(borrow)]
    expires: Option<&'l RawValue>,
    expire_after: Option<String>,
    #[serde(default)]
    max_attempts: u16,
    backoff: Option<String>,
    #[serde(default)]
    replace: bool,
    again: Option<String>,
    state: Option<String>,
    // What was and does not come back: attempts are counted from scratch.
    #[serde(default, rename = "attempt")]
    _attempt: u16,
    #[serde(default, rename = "delivery")]
    _delivery: u32,
    #[serde(rename = "reason")]
    _reason: Option<String>,
}

/// A line of a backup, or of an exported spool.
#[derive(Serialize)]
struct Written<'l> {
    topic: &'l Topic,
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<&'l str>,
    due: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'l str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    headers: &'l [(String, String)],
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expire_after: Option<String>,
    max_attempts: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    backoff: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    replace: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    again: Option<String>,
    state: &'static str,
    attempt: u16,
    delivery: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'l str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Clock {
    /// Those of this machine.
    Here,
    /// Nobody's: such a time is refused.
    Nobody,
}

/// What is named outside of a line: the topic of lines that name none, and the id by which their due times are spread.
#[derive(Clone, Copy, Debug, Default)]
pub struct Named<'n> {
    /// The topic.
    pub topic: Option<&'n Topic>,
    /// The id.
    pub id: Option<&'n MessageId>,
}

/// A line as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parsed {
    /// Its message.
    pub message: Message,
    /// Whether a backup took it from the dead letters.
    pub dead: bool,
}

/// A stored message as a line, without the end of the line.
pub fn line_of(listed: &Listed, envelope: &Envelope) -> String {
    line(&listed.topic, &listed.id, envelope, (false, Again::default()))
}

/// A message that is still to be put, and has its id, as a line, without the end of the line; `reason` says why it was not.
pub fn line_of_put(message: &Message, due: UnixMillis, reason: Option<&str>) -> String {
    let mut envelope = Envelope::of(message, message.payload.clone(), false);
    (envelope.due, envelope.reason) = (due, reason.map(str::to_owned));
    let id = message.id.as_ref().expect("a message has its id before it is spooled");
    line(&message.topic, id, &envelope, (message.replace, message.again))
}

fn line(topic: &Topic, id: &MessageId, envelope: &Envelope, (replace, again): (bool, Again)) -> String {
    let bytes = &envelope.payload;
    let (payload, payload_base64) = match std::str::from_utf8(bytes) {
        // A control character takes six bytes as text: a line must not outgrow what is read back.
        Ok(text) if bytes.iter().filter(|&&byte| byte < 0x20).count() <= bytes.len() / 16 => {
            (Some(text), None)
        }
        _ => (None, Some(base64::engine::general_purpose::STANDARD.encode(bytes))),
    };
    let written = Written {
        topic,
        id: id.to_string(),
        group: envelope.group.as_ref().map(delayq::Group::as_str),
        due: envelope.due.get(),
        payload,
        payload_base64,
        headers: &envelope.headers,
        // One that is counted from the due time is counted from it again, and moves with it as before.
        expires: envelope.expires.filter(|_| !envelope.relative).map(UnixMillis::get),
        expire_after: envelope.lifetime.map(|lifetime| HumanDuration::from(lifetime).to_string()),
        max_attempts: envelope.max_attempts,
        backoff: envelope.backoff.as_ref().map(backoff_text),
        replace,
        again: Some(again.to_string()).filter(|again| !again.is_empty()),
        state: envelope.state.word(),
        attempt: envelope.attempt,
        delivery: envelope.delivery,
        reason: envelope.reason.as_deref(),
    };
    serde_json::to_string(&written).expect("a line holds plain values")
}

/// The message of a line; `topic` is for lines that name none, `past_ok` for times that [`When::due`] doubts.
///
/// # Errors
/// A sentence that says what is wrong with the line.
pub fn parse(line: &[u8], topic: Option<&Topic>, past_ok: bool) -> Result<Message, String> {
    match parse_any(line, topic, past_ok)? {
        Parsed { dead: true, .. } => {
            Err("the line is a dead letter of a backup: use delayq restore --dead".to_owned())
        }
        Parsed { message, .. } => Ok(message),
    }
}

/// As [`parse`], dead letters included.
///
/// # Errors
/// A sentence that says what is wrong with the line.
pub fn parse_any(line: &[u8], topic: Option<&Topic>, past_ok: bool) -> Result<Parsed, String> {
    parse_by(Clock::Here, line, Named { topic, id: None }, past_ok)
}

/// As [`parse`], for the message of a request: its sender may be anywhere.
///
/// # Errors
/// A sentence that says what is wrong with the line.
pub fn parse_anywhere(line: &[u8], named: Named<'_>, past_ok: bool) -> Result<Message, String> {
    match parse_by(Clock::Nobody, line, named, past_ok)? {
        Parsed { dead: true, .. } => {
            Err("the line is a dead letter of a backup: use delayq restore --dead".to_owned())
        }
        Parsed { message, .. } => Ok(message),
    }
}

fn parse_by(clock: Clock, line: &[u8], named: Named<'_>, past_ok: bool) -> Result<Parsed, String> {
    let text = std::str::from_utf8(line).map_err(|error| format!("the line is not UTF-8: {error}"))?;
    if text.trim_start().starts_with('[') {
        return Err("the line is an array, not an object".to_owned()); // Serde would take the fields in their order.
    }
    let line: PutLine<'_> = serde_json::from_str(text).map_err(|error| column(&error))?;
    let topic = line.topic.or_else(|| named.topic.cloned());
    let topic = topic.ok_or("no \"topic\", neither in the line nor as an argument")?;
    if let Some(state) = line.state.as_deref().filter(|state| !STATES.contains(state)) {
        return Err(format!("state: unknown {state:?}, expected one of {}", STATES.join(", ")));
    }
    let payload = match (line.payload, &line.payload_base64) {
        (Some(_), Some(_)) => {
            return Err("both \"payload\" and \"payload_base64\" are set; keep one".to_owned());
        }
        (Some(raw), None) => {
            payload_bytes(raw).map_err(|why| format!("payload: {why}; write bytes as payload_base64"))?
        }
        (None, Some(text)) => base64::engine::general_purpose::STANDARD
            .decode(text)
            .map_err(|error| format!("payload_base64: {error}"))?,
        (None, None) => Vec::new(),
    };
    let mut message = Message::new(topic, payload).max_attempts(line.max_attempts);
    message.any_time = past_ok;
    if let Some(raw) = line.due {
        message = message.due(due(clock, "due", raw, past_ok)?);
    }
    let id = line.id.clone().or_else(|| named.id.map(ToString::to_string));
    message.due = spread(line.between.as_deref(), line.jitter.as_deref())?.due(message.due, id.as_deref())?;
    if let Some(raw) = line.expires {
        match due(clock, "expires", raw, past_ok)? {
            Due::At(at) => message = message.expires(at),
            Due::After(_) => return Err("expires: must be an absolute time".to_owned()),
        }
    }
    if let Some(text) = line.expire_after {
        let lifetime: HumanDuration = text.parse().map_err(|fault| format!("expire_after: {fault}"))?;
        message = message.expire_after(lifetime.into());
    }
    if let Some(id) = line.id {
        message = message.with_id(id.parse().map_err(|error| format!("{error}"))?);
    }
    if let Some(group) = line.group {
        message = message.group(group).map_err(|error| error.to_string())?;
    }
    if let Some(raw) = line.headers {
        message.headers = headers(raw).map_err(|error| format!("headers: {}", column(&error)))?;
    }
    if let Some(text) = line.backoff {
        message = message.backoff(backoff(&text).map_err(|fault| format!("backoff: {fault}"))?);
    }
    message.replace = line.replace;
    if let Some(text) = line.again {
        message.again = again(&text, message.replace).map_err(|why| format!("again: {why}"))?;
    }
    Ok(Parsed { message, dead: line.state.as_deref() == Some(DEAD) })
}

/// How a put meets a pending message, as written beside `replace`.
///
/// # Errors
/// The words are no mode, or the put does not replace.
pub fn again(text: &str, replace: bool) -> Result<Again, String> {
    let again = text.parse::<Again>().map_err(|fault| fault.to_string())?;
    if replace { Ok(again) } else { Err("needs replace".to_owned()) }
}

/// Headers in the order of an array, or by name.
fn headers(raw: &RawValue) -> Result<Vec<(String, String)>, serde_json::Error> {
    if raw.get().starts_with('[') {
        return serde_json::from_str(raw.get());
    }
    Ok(serde_json::from_str::<ByName>(raw.get())?.0.into_iter().collect())
}

/// Headers by name. A name that comes twice is refused, because a map would keep the last value alone.
struct ByName(BTreeMap<String, String>);

impl<'de> Deserialize<'de> for ByName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Entries)
    }
}

struct Entries;

impl<'de> Visitor<'de> for Entries {
    type Value = ByName;

    fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("headers by name")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<ByName, A::Error> {
        let mut named = BTreeMap::new();
        while let Some((name, value)) = entries.next_entry::<String, String>()? {
            if named.insert(name, value).is_some() {
                return Err(A::Error::custom("a name occurs twice: write an array of [name, value] pairs"));
            }
        }
        Ok(ByName(named))
    }
}

/// A value that is there, null included.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// The bytes of a payload that is written as JSON: a string is its text, anything else is itself.
///
/// # Errors
/// A string that is not text.
pub fn payload_bytes(raw: &RawValue) -> Result<Vec<u8>, String> {
    if !raw.get().starts_with('"') {
        return Ok(raw.get().as_bytes().to_vec());
    }
    let text: Result<String, _> = serde_json::from_str(raw.get());
    text.map(String::into_bytes).map_err(|error| {
        let text = error.to_string();
        format!("{}: a string is text", text.split(" at line ").next().unwrap_or_default())
    })
}

fn spread(between: Option<&str>, jitter: Option<&str>) -> Result<Spreading, String> {
    let between = between.map(|window| window.parse().map_err(|fault| format!("between: {fault}")));
    let longest = |text: &str| text.parse().map(|span: HumanDuration| *span);
    let jitter = jitter.map(|text| longest(text).map_err(|fault| format!("jitter: {fault}")));
    Ok(Spreading { between: between.transpose()?, jitter: jitter.transpose()? })
}

fn due(clock: Clock, field: &str, raw: &RawValue, past_ok: bool) -> Result<Due, String> {
    let text = serde_json::from_str::<String>(raw.get()).unwrap_or_else(|_| raw.get().to_owned());
    let when = match clock {
        Clock::Here => text.parse(),
        Clock::Nobody => When::anywhere(&text),
    };
    when.and_then(|when| when.due(past_ok)).map_err(|fault| format!("{field}: {fault}"))
}

/// A line's fault without serde's "at line 1": the caller knows which line it is.
fn column(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let what = text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what);
    let not_json = if error.is_data() { "" } else { "not JSON: " };
    let column = if error.column() > 0 { format!(" (column {})", error.column()) } else { String::new() };
    format!("{not_json}{what}{column}")
}

#[cfg(test)]
mod tests {
    use super::*;
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
        let line = br#"{"topic":"t","due":"+1h","expire_after":"10m"}"#;
        let expected = Message::new(Topic::new("t").unwrap(), "").after(Duration::from_secs(3600));
        assert_eq!(parse(line, None, false), Ok(expected.expire_after(Duration::from_secs(600))));
        let line = br#"{"topic":"t","due":1800000000000,"payload_base64":"AAH/"}"#;
        let expected =
            Message::new(Topic::new("t").unwrap(), [0, 1, 255]).at(UnixMillis::new(1_800_000_000_000));
        assert_eq!(parse(line, Some(&topic()), false), Ok(expected));
        for (payload, bytes) in [(r#""text""#, "text"), ("null", "null"), (r#""""#, ""), ("[ 1]", "[ 1]")] {
            let line = format!(r#"{{"payload":{payload}}}"#);
            assert_eq!(parse(line.as_bytes(), Some(&topic()), false), Ok(Message::new(topic(), bytes)));
        }
        assert_eq!(parse(b"{}", Some(&topic()), false), Ok(Message::new(topic(), "")));
    }

    #[test]
    fn a_stored_message_is_written_as_the_line_that_makes_it_again() {
        let id: delayq::MessageId = "~0190a000-0000-7003-8000-000000000001".parse().unwrap();
        let due = UnixMillis::new(1_800_000_000_000);
        let plain = Message::new(topic(), "{\"b\":1,\n \"a\":2}").at(due).with_id(id.clone()).max_attempts(3);
        let full = Message::new(topic(), [0, 1, 255]).at(due).with_id("~~own".parse().unwrap());
        let full = full.group("g \u{2028}\"").unwrap().header("b", "1").header("a", "2").header("b", "3");
        let full = full.expires(UnixMillis::new(1_900_000_000_000)).max_attempts(1);
        let full = full.backoff(delayq::Backoff::Fixed(Duration::from_millis(1500)));
        let lasting = Message::new(topic(), "x").at(due).with_id(id.clone()).max_attempts(3);
        for message in [plain, full, lasting.expire_after(Duration::from_millis(90_500))] {
            let mut envelope = Envelope::of(&message, message.payload.clone(), false);
            envelope.due = due;
            let id = message.id.clone().unwrap();
            let shard = delayq::protocol::ShardId::new(0);
            let group = message.group.clone();
            let listed = Listed { shard, topic: topic(), id, group, envelope: Ok(envelope.clone()) };
            let line = line_of(&listed, &envelope);
            assert!(!line.contains('\n'), "{line}");
            assert_eq!(parse(line.as_bytes(), None, false), Ok(message.clone()), "{line}");
            let debounced = message.clone().debounce(Duration::from_secs(60)).keep_content();
            let throttled = message.clone().throttle(Duration::from_secs(60));
            let swallowed = message.clone().swallow(Duration::from_secs(60));
            for message in [message.replace(), debounced, throttled, swallowed] {
                let line = line_of_put(&message.clone().after(Duration::from_secs(1)), due, Some("conflict"));
                assert_eq!(parse(line.as_bytes(), None, false), Ok(message), "{line}");
            }
        }
    }

    #[test]
    fn a_line_s_due_time_is_spread_by_its_id() {
        let due = |fields: &str| {
            let line = format!(r#"{{"topic":"t","due":1796094000000,{fields}}}"#);
            parse(line.as_bytes(), None, false).unwrap().due
        };
        let window = r#""between":"09:00-10:00 Europe/Berlin""#;
        let at = |ms| Due::At(UnixMillis::new(ms));
        assert_eq!(due(&format!(r#"{window},"id":"order-17""#)), at(1_796_113_612_411));
        assert_eq!(due(r#""jitter":"1h","id":"order-17""#), at(1_796_094_000_000 + 1_612_411));
        let Due::At(random) = due(window) else { panic!("a window has times") };
        assert!((1_796_112_000_000..1_796_115_600_000).contains(&random.get()), "{random}");
    }

    #[test]
    fn each_fault_of_a_line_is_named() {
        for (line, expected) in [
            (&b"{"[..], "not JSON: EOF while parsing an object"),
            (b"rubbish", "not JSON: expected value (column 1)"),
            (b"[]", "the line is an array"),
            (b"{}", "no \"topic\""),
            (b"\xff\xfe", "the line is not UTF-8"),
            (br#"{"topic":"a b"}"#, "topic \"a b\": only ASCII letters"),
            (br#"{"topic":""}"#, "it is empty"),
            (br#"{"topic":"t","id":""}"#, "id \"\": it is empty"),
            (br#"{"topic":"t","id":"a\u0000b"}"#, "control character"),
            (br#"{"topic":"t","group":"a\r\n"}"#, "control character"),
            (br#"{"topic":"t","payload":1,"again":"later"}"#, "again: needs replace"),
            (
                br#"{"topic":"t","payload":1,"replace":true,"again":"soon"}"#,
                "again: \"soon\" is not a mode: expected later, sooner",
            ),
            (
                br#"{"topic":"t","payload":1,"replace":true,"again":"throttle=1m"}"#,
                "again: \"throttle=1m\" is not a mode: expected later, sooner, content, or within=MS, throttle=MS",
            ),
            (br#"{"topic":"t","due":-1}"#, "due: -1 ms is not between"),
            (br#"{"topic":"t","due":0}"#, "due: 0 ms is not between"),
            (br#"{"topic":"t","due":9007199254740992}"#, "due: 9007199254740992 ms is not between"),
            (br#"{"topic":"t","due":1800000000}"#, "due: 1800000000 ms since the epoch is 1970-01-21"),
            (br#"{"topic":"t","due":1800000000000000}"#, "due: 1800000000000000 ms since the epoch is"),
            (br#"{"topic":"t","due":1.5}"#, "due: \"1.5\" is not a time"),
            (br#"{"topic":"t","due":"NaN"}"#, "due: \"NaN\" is not a time"),
            (br#"{"topic":"t","due":"soon"}"#, "due: \"soon\" is not a time"),
            (
                br#"{"topic":"t","between":"09:00-09:00 UTC"}"#,
                "between: the window \"09:00-09:00 UTC\" is empty",
            ),
            (
                br#"{"topic":"t","between":"09:00-10:00 Mars/Base"}"#,
                "between: unknown time zone \"Mars/Base\"",
            ),
            (br#"{"topic":"t","between":"9-10 UTC"}"#, "between: \"9-10 UTC\" is not a window"),
            (br#"{"topic":"t","between":"09:00-10:00 UTC","jitter":"1m"}"#, "both set"),
            (br#"{"topic":"t","jitter":"soon"}"#, "jitter: expected number at 0; expected a duration"),
            (br#"{"topic":"t","payload":1,"payload_base64":"AA=="}"#, "both"),
            (br#"{"topic":"t","payload":null,"payload_base64":"AA=="}"#, "both"),
            (br#"{"topic":"t","payload":"a\ud800b"}"#, "payload: unexpected end of hex escape"),
            (br#"{"topic":"t","payload":"\udc00"}"#, "payload: lone leading surrogate"),
            (br#"{"topic":"t","payload_base64":"?"}"#, "payload_base64"),
            (br#"{"topic":"t","headers":{"n":1}}"#, "headers: invalid type: integer `1`"),
            (br#"{"topic":"t","headers":[["n"]]}"#, "headers: invalid length 1"),
            (br#"{"topic":"t","expire_after":"soon"}"#, "expire_after: expected number at 0"),
            (br#"{"topic":"t","backoff":"10m..1s"}"#, "backoff: the first delay is longer"),
            (br#"{"topic":"t","headers":{"n":"1","n":"2"}}"#, "headers: a name occurs twice"),
            (br#"{"topic":"t","state":"dead"}"#, "dead letter of a backup"),
            (
                br#"{"topic":"t","state":"ded"}"#,
                "state: unknown \"ded\", expected one of delayed, ready, leased, dead",
            ),
            (br#"{"topic":"t","delay":5}"#, "unknown field `delay`"),
        ] {
            let fault = parse(line, None, false).unwrap_err();
            assert!(fault.contains(expected), "{}: {fault}", String::from_utf8_lossy(line));
            assert!(!fault.contains("at line"), "{fault}");
        }
    }
}
