//! Putting one message: as the JSON of `delayq put --from`, or with its payload as the body.

use super::answer::{Answer, json};
use crate::input::{Ask, Form, must_be_object, when};
use crate::problem::{Kind, Problem};
use crate::table::MESSAGE_HEADER;
use axum::http::{HeaderValue, StatusCode, header};
use delayq::{Due, Group, Message, MessageId, Put, PutOutcome, Topic, UnixMillis};
use delayq_service::config::{HumanDuration, backoff};
use delayq_service::json::put as json_of;
use delayq_service::put_line;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::value::RawValue;

/// The header by which a repeat is recognised.
const KEY: &str = "idempotency-key";
const TRIED: &str = "delayq-tried";
/// Headers that describe a message whose payload is the body.
const DESCRIBING: [&str; 8] = [
    "delayq-due",
    "delayq-group",
    "delayq-expires",
    "delayq-expire-after",
    "delayq-max-attempts",
    "delayq-backoff",
    "delayq-replace",
    "delayq-again",
];

const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

pub(super) async fn under_id(ask: Ask) -> Answer {
    let (id, group) = (ask.id()?, ask.query.get::<Group>("group")?);
    let scope = ask.scope.clone();
    let message = read(ask).await?;
    if message.id.as_ref().is_some_and(|named| *named != id) {
        return Err(Problem::invalid("id", "the id in the body differs from the id in the path"));
    }
    if let (Some(of_path), Some(named)) = (&group, &message.group)
        && of_path != named
    {
        return Err(Problem::invalid("group", "the group in the body differs from the parameter"));
    }
    let mut message = message.with_id(id);
    message.group = group.or(message.group);
    let topic = message.topic.clone();
    let put = scope.put(message).await?;
    answer(&topic, &put)
}

pub(super) async fn posted(ask: Ask) -> Answer {
    let key = ask.header(KEY)?.map(|key| key.trim().trim_matches('"').to_owned());
    let scope = ask.scope.clone();
    let mut message = read(ask).await?;
    if let Some(key) = &key {
        let id = MessageId::own(key.as_str()).map_err(|error| Problem::invalid(KEY, error))?;
        if message.id.as_ref().is_some_and(|named| *named != id) {
            return Err(Problem::invalid("id", "the id in the body differs from the Idempotency-Key"));
        }
        message = message.with_id(id);
    }
    let topic = message.topic.clone();
    let put = scope.put(message).await?;
    match (&put.outcome, key) {
        (PutOutcome::Conflict(..), Some(_)) => {
            Err(Problem::outcome(Kind::Invalid, json_of(&put.reference, &put.outcome)).at(KEY))
        }
        _ => answer(&topic, &put),
    }
}

fn answer(topic: &Topic, put: &Put) -> Answer {
    let value = json_of(&put.reference, &put.outcome);
    let status = match put.outcome {
        PutOutcome::Stored(_) | PutOutcome::Ready(_) => StatusCode::CREATED,
        PutOutcome::Spooled => StatusCode::ACCEPTED,
        PutOutcome::Refused(_) => return Err(Problem::outcome(Kind::Invalid, value)),
        _ if put.outcome.is_accepted() => StatusCode::OK,
        _ => return Err(Problem::outcome(Kind::Conflict, value)),
    };
    let mut response = json(status, &value);
    if status == StatusCode::CREATED {
        let place = HeaderValue::from_str(&place(topic, put)).expect("the text is percent-encoded");
        response.headers_mut().insert(header::LOCATION, place);
    }
    Ok(response)
}

fn place(topic: &Topic, put: &Put) -> String {
    let encoded = |text: &str| utf8_percent_encode(text, SEGMENT).to_string();
    let (topic, id) = (encoded(topic.as_str()), encoded(&put.reference.id.to_string()));
    let group = put.reference.group.as_ref().map(|group| format!("?group={}", encoded(group.as_str())));
    format!("/v1/topics/{topic}/messages/{id}{}", group.unwrap_or_default())
}

/// The id may be missing.
async fn read(ask: Ask) -> Result<Message, Problem> {
    let (topic, past_ok, form) = (ask.topic()?, ask.past_ok()?, ask.form());
    let tried = ask.header(TRIED)?.map(|text| moment(TRIED, text, past_ok)).transpose()?;
    let described = match form {
        Form::Other => describe(&ask, topic.clone(), past_ok)?,
        Form::Json => {
            undescribed(&ask)?;
            Message::new(topic.clone(), "")
        }
        Form::Ndjson => {
            return Err(Problem::new(Kind::OtherType, "send lines of messages to POST /v1/messages"));
        }
    };
    let body = ask.whole().await?;
    let mut message = match form {
        Form::Json => json_message(&body.bytes, &topic, past_ok)?,
        _ => described,
    };
    if form == Form::Other {
        message.payload = body.bytes.to_vec();
    }
    message.tried = tried;
    Ok(message)
}

fn json_message(body: &[u8], topic: &Topic, past_ok: bool) -> Result<Message, Problem> {
    must_be_object(body)?;
    let message = put_line::parse_anywhere(body, Some(topic), past_ok);
    // A body without valid JSON is malformed; JSON that is not a message is invalid.
    let kind = || match serde_json::from_slice::<&RawValue>(body) {
        Err(_) => Kind::Malformed,
        Ok(_) => Kind::Invalid,
    };
    let message = message.map_err(|why| Problem::new(kind(), why))?;
    if message.topic != *topic {
        return Err(Problem::invalid("topic", "the topic in the body differs from the topic in the path"));
    }
    Ok(message)
}

/// Without the payload, by the headers of the request.
fn describe(ask: &Ask, topic: Topic, past_ok: bool) -> Result<Message, Problem> {
    let mut message = Message::new(topic, "");
    message.any_time = past_ok;
    if let Some(text) = ask.header("delayq-due")? {
        let due = when("delayq-due", text)?.due(past_ok);
        message = message.due(due.map_err(|why| Problem::invalid("delayq-due", why))?);
    }
    if let Some(text) = ask.header("delayq-expires")? {
        message = message.expires(moment("delayq-expires", text, past_ok)?);
    }
    if let Some(text) = ask.header("delayq-expire-after")? {
        let lifetime = text.parse::<HumanDuration>();
        message =
            message.expire_after(*lifetime.map_err(|why| Problem::invalid("delayq-expire-after", why))?);
    }
    if let Some(text) = ask.header("delayq-group")? {
        message = message.group(text).map_err(|why| Problem::invalid("delayq-group", why))?;
    }
    if let Some(text) = ask.header("delayq-max-attempts")? {
        let attempts = text.parse().map_err(|why| Problem::invalid("delayq-max-attempts", why))?;
        message = message.max_attempts(attempts);
    }
    if let Some(text) = ask.header("delayq-backoff")? {
        message = message.backoff(backoff(text).map_err(|why| Problem::invalid("delayq-backoff", why))?);
    }
    match ask.header("delayq-replace")? {
        None | Some("false") => {}
        Some("true") => message = message.replace(),
        Some(_) => return Err(Problem::invalid("delayq-replace", "must be true or false")),
    }
    if let Some(text) = ask.header("delayq-again")? {
        let again = put_line::again(text, message.replace);
        message.again = again.map_err(|why| Problem::invalid("delayq-again", why))?;
    }
    if let Some(kind) = ask.header("content-type")? {
        message = message.header("content-type", kind);
    }
    for (name, value) in &ask.headers {
        if let Some(own) = name.as_str().strip_prefix(MESSAGE_HEADER) {
            let value = std::str::from_utf8(value.as_bytes());
            let value = value.map_err(|_| Problem::invalid(name.as_str(), "not UTF-8"))?;
            message = message.header(own, value);
        }
    }
    Ok(message)
}

/// Refuses headers that a JSON body makes meaningless.
fn undescribed(ask: &Ask) -> Result<(), Problem> {
    let mut names = ask.headers.keys().map(header::HeaderName::as_str);
    let odd = names.find(|name| DESCRIBING.contains(name) || name.starts_with(MESSAGE_HEADER));
    odd.map_or(Ok(()), |name| Err(Problem::invalid(name, "with a JSON body, set this in the body")))
}

fn moment(pointer: &str, text: &str, past_ok: bool) -> Result<UnixMillis, Problem> {
    match when(pointer, text)?.due(past_ok).map_err(|why| Problem::invalid(pointer, why))? {
        Due::At(at) => Ok(at),
        Due::After(_) => Err(Problem::invalid(pointer, "must be an absolute time")),
    }
}
