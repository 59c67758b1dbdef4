//! Encoding: a reservation becomes a parcel. Pure.

use crate::config::partition;
use crate::encoding::Encoding;
use crate::parcel::{About, Parcel};
use crate::routes::Route;
use crate::template::Template;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use delayq::UnixMillis;
use delayq::protocol::Reservation;
use delayq_service::headers::{self, STRUCTURED_EVENT};
use jiff::Timestamp;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

/// Maximum bytes of a destination's name.
pub(crate) const MAX_BYTES: usize = 1024;

/// Makes a parcel of a message and its route, moving headers and payload out of the message; `event_prefix` begins the
/// names of event headers.
///
/// # Errors
/// Why this route can never deliver the message.
pub(crate) fn encode(
    route: &Route,
    encoding: Encoding,
    event_prefix: &str,
    message: &mut Reservation,
) -> Result<Parcel, String> {
    let about = About::of(message);
    let headers = &message.envelope.headers;
    let needed = |what: &str, template: &Template| {
        template.render(&about, headers).map_err(|missing| {
            format!("the route's {what} `{template}` needs {missing}, which the message does not have")
        })
    };
    let destination = needed("destination", &route.to)?;
    if destination.len() > MAX_BYTES {
        let bytes = destination.len();
        return Err(format!("the destination has {bytes} bytes, more than {MAX_BYTES}"));
    }
    let key = match &route.config.key {
        Some(key) => key.render(&about, headers).ok(),
        None => Some(about.group.as_ref().unwrap_or(&about.id).clone()),
    };
    let chosen = route.config.partition.as_ref().map(|template| needed("partition", template)).transpose()?;
    let partition = chosen.as_deref().map(partition).transpose()?;
    let added: Vec<(String, String)> = route
        .config
        .headers
        .iter()
        .filter_map(|(name, template)| Some((name.clone(), template.render(&about, headers).ok()?)))
        .collect();
    let mut headers = std::mem::take(&mut message.envelope.headers);
    headers.retain(|(name, _)| headers::own(name).is_none());
    for (name, value) in added {
        headers.retain(|(other, _)| !other.eq_ignore_ascii_case(&name));
        headers.push((name, value));
    }
    let body = std::mem::take(&mut message.envelope.payload).into();
    let parcel = Parcel { destination, key, partition, headers, body, about };
    Ok(match encoding {
        Encoding::Plain => parcel,
        Encoding::CloudeventsBinary => binary(parcel, event_prefix),
        Encoding::CloudeventsStructured => structured(parcel),
    })
}

fn attributes(parcel: &Parcel) -> Vec<(&'static str, String)> {
    let about = &parcel.about;
    let mut attributes = vec![
        ("specversion", "1.0".to_owned()),
        ("id", about.id.clone()),
        ("source", source(about)),
        ("type", parcel.header("ce-type").map_or_else(|| about.topic.clone(), str::to_owned)),
    ];
    if let Some(time) = rfc3339(about.due) {
        attributes.push(("time", time));
    }
    if let Some(group) = &about.group {
        attributes.push(("subject", group.clone()));
    }
    for name in ["traceparent", "tracestate"] {
        if let Some(value) = parcel.header(name) {
            attributes.push((name, value.to_owned()));
        }
    }
    attributes
}

/// The source of an event: source and id together identify a message.
fn source(about: &About) -> String {
    let topic = &about.topic;
    match about.naming_group() {
        None => format!("/delayq/{topic}"),
        Some(group) => format!("/delayq/{topic}#{}", utf8_percent_encode(group, NON_ALPHANUMERIC)),
    }
}

fn binary(mut parcel: Parcel, prefix: &str) -> Parcel {
    for (name, value) in attributes(&parcel) {
        let name = format!("{prefix}{name}");
        parcel.headers.retain(|(own, _)| !own.eq_ignore_ascii_case(&name));
        parcel.headers.push((name, value));
    }
    parcel
}

fn structured(mut parcel: Parcel) -> Parcel {
    let mut event = serde_json::Map::new();
    for (name, value) in attributes(&parcel) {
        event.insert(name.to_owned(), Value::String(value));
    }
    let content_type = parcel.header("content-type").map(str::to_owned);
    let is_json = content_type.as_deref().is_none_or(|kind| kind.contains("json"));
    match (std::str::from_utf8(&parcel.body), serde_json::from_slice::<Value>(&parcel.body)) {
        (_, Ok(document)) if is_json => event.insert("data".to_owned(), document),
        (Ok(text), _) => event.insert("data".to_owned(), json!(text)),
        (Err(_), _) => event.insert("data_base64".to_owned(), json!(STANDARD.encode(&parcel.body))),
    };
    if let Some(content_type) = content_type {
        event.insert("datacontenttype".to_owned(), Value::String(content_type));
    }
    parcel.body = Value::Object(event).to_string().into();
    parcel.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("content-type"));
    parcel.headers.push(("content-type".to_owned(), STRUCTURED_EVENT.to_owned()));
    parcel
}

/// In UTC with milliseconds; `None` after the year 9999, where the format ends.
fn rfc3339(at: UnixMillis) -> Option<String> {
    Timestamp::try_from(at).ok().map(|at| format!("{at:.3}"))
}

#[cfg(test)]
mod tests;
