//! Encoding: a reservation becomes a parcel. Pure.

use crate::config::partition;
use crate::encoding::Encoding;
use crate::parcel::{About, Parcel};
use crate::routes::Route;
use crate::template::Template;
use delayq::UnixMillis;
use delayq::protocol::Reservation;
use delayq_service::events::{self, CARRIED, CloudEvent};
use delayq_service::headers::{self, STRUCTURED_EVENT};
use jiff::Timestamp;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

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

/// Those of the event as which the message was put, or else those that describe the message.
fn attributes(parcel: &Parcel) -> Vec<(String, String)> {
    let owned = |(name, value): (&str, &str)| (name.to_ascii_lowercase(), value.to_owned());
    if let Some(event) = CloudEvent::carried(&parcel.headers) {
        return event.into_iter().map(owned).collect();
    }
    let about = &parcel.about;
    let mut attributes = vec![
        ("specversion", "1.0".to_owned()),
        ("id", about.id.clone()),
        ("source", source(about)),
        ("type", parcel.header("ce-type").map_or_else(|| about.topic.clone(), str::to_owned)),
    ];
    attributes.extend(rfc3339(about.due).map(|time| ("time", time)));
    attributes.extend(about.group.clone().map(|group| ("subject", group)));
    for name in ["traceparent", "tracestate"] {
        attributes.extend(parcel.header(name).map(|value| (name, value.to_owned())));
    }
    attributes.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
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
    let (attributes, is_event) = (attributes(&parcel), CloudEvent::carried(&parcel.headers).is_some());
    // Under two prefixes, an attribute would occur twice.
    parcel.headers.retain(|(name, _)| !is_event || headers::rest_of(name, CARRIED).is_none());
    for (name, value) in attributes {
        let name = format!("{prefix}{name}");
        parcel.headers.retain(|(own, _)| !own.eq_ignore_ascii_case(&name));
        parcel.headers.push((name, value));
    }
    parcel
}

fn structured(mut parcel: Parcel) -> Parcel {
    let (attributes, is_event) = (attributes(&parcel), CloudEvent::carried(&parcel.headers).is_some());
    let content_type = parcel.header("content-type").map(str::to_owned);
    let texts = attributes.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    parcel.body = events::document(texts, content_type.as_deref(), &parcel.body, !is_event).into();
    let stays = |name: &str| {
        !name.eq_ignore_ascii_case("content-type") && (!is_event || headers::rest_of(name, CARRIED).is_none())
    };
    parcel.headers.retain(|(name, _)| stays(name));
    parcel.headers.push(("content-type".to_owned(), STRUCTURED_EVENT.to_owned()));
    parcel
}

/// In UTC with milliseconds; `None` after the year 9999, where the format ends.
fn rfc3339(at: UnixMillis) -> Option<String> {
    Timestamp::try_from(at).ok().map(|at| format!("{at:.3}"))
}

#[cfg(test)]
mod tests;
