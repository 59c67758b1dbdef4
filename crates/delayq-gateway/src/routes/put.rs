//! Putting one message: as the JSON of `delayq put --from`, with its payload as the body, or as an event.

mod condition;
mod described;
mod event;
mod names;

use super::answer::{Answer, json};
use crate::input::{Ask, Form, must_be_object};
use crate::problem::{Kind, Problem};
use crate::table::{DESCRIBING, MESSAGE_HEADER};
use axum::http::{HeaderValue, StatusCode, header};
use condition::Condition;
use delayq::{Group, Message, MessageId, Put, PutOutcome, Topic};
use delayq_service::events::CloudEvent;
use delayq_service::json::put as json_of;
use delayq_service::put_line;
use delayq_service::put_options::moment;
use described::Described;
use names::{PutNames, fault};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// The header by which a repeat is recognised.
const KEY: &str = "idempotency-key";
const TRIED: &str = "delayq-tried";

const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// What the body of a request is.
enum PutContent {
    Json,
    /// The payload of this message.
    Payload(Box<Message>),
    /// The data of this event.
    Data(CloudEvent),
    Event,
}

pub(super) async fn under_id(ask: Ask) -> Answer {
    let (id, group) = (ask.id()?, ask.query.get::<Group>("group")?);
    let (scope, condition) = (ask.scope.clone(), Condition::of(&ask)?);
    let named = PutNames { topic: Some(ask.topic()?), id: Some(id.clone()) };
    let message = read(ask, named).await?;
    if message.id.as_ref().is_some_and(|named| *named != id) {
        return Err(Problem::invalid("id", "the id in the body differs from the id in the path"));
    }
    if let (Some(of_path), Some(named)) = (&group, &message.group)
        && of_path != named
    {
        return Err(Problem::invalid("group", "the group in the body differs from the parameter"));
    }
    let mut message = condition.on(message.with_id(id))?;
    message.group = group.or(message.group);
    let topic = message.topic.clone();
    let put = scope.put(message).await?;
    condition.judge(&scope, &topic, &put).await?;
    answer(&topic, &put)
}

pub(super) async fn posted(ask: Ask) -> Answer {
    let key = ask.header(KEY)?.map(|key| key.trim().trim_matches('"').to_owned());
    let key = key.map(MessageId::own).transpose().map_err(|error| Problem::invalid(KEY, error))?;
    let scope = ask.scope.clone();
    let named = PutNames { topic: Some(ask.topic()?), id: key.clone() };
    let mut message = read(ask, named).await?;
    if let Some(id) = &key {
        if message.id.as_ref().is_some_and(|named| named != id) {
            return Err(Problem::invalid("id", "the id in the body differs from the Idempotency-Key"));
        }
        message = message.with_id(id.clone());
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

/// Puts one event, whose topic is not in the path.
pub(super) async fn event(ask: Ask) -> Answer {
    let scope = ask.scope.clone();
    let message = read(ask, PutNames::default()).await?;
    let topic = message.topic.clone();
    answer(&topic, &scope.put(message).await?)
}

/// The message of one event of an array.
pub(super) fn message_of_event(document: &[u8], past_ok: bool) -> Result<Message, Problem> {
    event::message(event::read(document)?, &PutNames::default(), past_ok)
}

/// True if the attributes of an event are among the headers.
pub(super) fn is_event(ask: &Ask) -> Result<bool, Problem> {
    Ok(ask.form() == Form::Event || event::in_headers(ask)?.is_some())
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

/// The id may be missing in the message.
async fn read(ask: Ask, named: PutNames) -> Result<Message, Problem> {
    let past_ok = ask.past_ok()?;
    let tried = ask.header(TRIED)?.map(|text| moment(text, past_ok)).transpose();
    let tried = tried.map_err(|why| Problem::invalid(TRIED, why))?;
    let content = content(&ask, &named, past_ok)?;
    let body = ask.whole().await?;
    let mut message = match content {
        PutContent::Json => json_message(&body.bytes, &named, past_ok)?,
        PutContent::Event => event::message(event::read(&body.bytes)?, &named, past_ok)?,
        PutContent::Data(event) => {
            event::message(CloudEvent { data: body.bytes.to_vec(), ..event }, &named, past_ok)?
        }
        PutContent::Payload(mut message) => {
            message.payload = body.bytes.to_vec();
            *message
        }
    };
    message.tried = tried;
    Ok(message)
}

fn content(ask: &Ask, named: &PutNames, past_ok: bool) -> Result<PutContent, Problem> {
    let form = ask.form();
    if form == Form::Event {
        event::asks_nothing(ask)?;
        undescribed(ask, "an event", "as an attribute")?;
        return Ok(PutContent::Event);
    }
    if let Some(event) = event::in_headers(ask)? {
        undescribed(ask, "an event", "as an attribute")?;
        return Ok(PutContent::Data(event));
    }
    match (form, &named.topic) {
        (Form::Json, Some(_)) => {
            undescribed(ask, "a JSON body", "in the body")?;
            Ok(PutContent::Json)
        }
        (Form::Other, Some(topic)) => {
            Ok(PutContent::Payload(Box::new(described(ask, topic, named, past_ok)?)))
        }
        _ => {
            let why = "send lines of messages, and arrays of events, to POST /v1/messages";
            Err(Problem::new(Kind::OtherType, why))
        }
    }
}

fn json_message(body: &[u8], named: &PutNames, past_ok: bool) -> Result<Message, Problem> {
    must_be_object(body)?;
    let outside = put_line::Named { topic: named.topic.as_ref(), id: named.id.as_ref() };
    let message = put_line::parse_anywhere(body, outside, past_ok);
    let message = message.map_err(|why| Problem::new(fault(body), why))?;
    if named.topic.as_ref().is_some_and(|topic| message.topic != *topic) {
        return Err(Problem::invalid("topic", "the topic in the body differs from the topic in the path"));
    }
    Ok(message)
}

/// Without the payload, by the headers of the request.
fn described(ask: &Ask, topic: &Topic, named: &PutNames, past_ok: bool) -> Result<Message, Problem> {
    let mut message = Message::new(topic.clone(), "");
    message.id.clone_from(&named.id);
    message = Described::of_headers(ask, past_ok)?.message(message)?;
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

/// Refuses headers that a body makes meaningless.
fn undescribed(ask: &Ask, body: &str, place: &str) -> Result<(), Problem> {
    let mut names = ask.headers.keys().map(header::HeaderName::as_str);
    let odd = names.find(|name| DESCRIBING.contains(name) || name.starts_with(MESSAGE_HEADER));
    odd.map_or(Ok(()), |name| Err(Problem::invalid(name, format!("with {body}, set this {place}"))))
}
