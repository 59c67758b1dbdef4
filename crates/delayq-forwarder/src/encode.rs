//! Encoding: a reservation becomes a parcel. Pure.

use crate::config::partition;
use crate::encoding::Encoding;
use crate::parcel::{About, Parcel};
use crate::routes::Route;
use crate::template::Template;
use delayq::protocol::Reservation;
use delayq_service::events::DeliveredEvent;
use delayq_service::headers::{self, STRUCTURED_EVENT};

const CONTENT_TYPE: &str = "content-type";

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

fn binary(mut parcel: Parcel, prefix: &str) -> Parcel {
    let event = DeliveredEvent::of(&parcel.headers, &parcel.about.origin());
    // Under two prefixes, an attribute would occur twice.
    parcel.headers.retain(|(name, _)| !event.has(name));
    for (name, value) in event.attributes {
        let name = format!("{prefix}{name}");
        parcel.headers.retain(|(own, _)| !own.eq_ignore_ascii_case(&name));
        parcel.headers.push((name, value));
    }
    parcel
}

fn structured(mut parcel: Parcel) -> Parcel {
    let event = DeliveredEvent::of(&parcel.headers, &parcel.about.origin());
    parcel.body = event.document(parcel.header(CONTENT_TYPE), &parcel.body).into();
    parcel.headers.retain(|(name, _)| !name.eq_ignore_ascii_case(CONTENT_TYPE) && !event.has(name));
    parcel.headers.push((CONTENT_TYPE.to_owned(), STRUCTURED_EVENT.to_owned()));
    parcel
}

#[cfg(test)]
mod tests;
