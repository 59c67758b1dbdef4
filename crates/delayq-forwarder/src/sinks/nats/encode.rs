//! One parcel as one publication.

use crate::Parcel;
use async_nats::{HeaderMap, HeaderName, HeaderValue, header};
use delayq_service::brokers::{NatsLetter, Outcome, commands_nats};
use std::str::FromStr;

/// With or without the id by which the stream drops repeats.
pub(super) fn letter(parcel: &Parcel, with_id: bool) -> Result<NatsLetter<'_>, Outcome> {
    let mut headers = headers(parcel).map_err(Outcome::rejected)?;
    if with_id {
        headers.insert(header::NATS_MESSAGE_ID, parcel.about.identity.as_str());
    }
    Ok(NatsLetter { subject: &parcel.destination, headers, body: parcel.body.clone() })
}

/// The error names the header that NATS cannot carry.
pub(super) fn headers(parcel: &Parcel) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    // Names and values are plain ASCII and need no check.
    for (name, value) in parcel.about.headers() {
        headers.insert(HeaderName::from_static(name), value.into_owned());
    }
    for (name, value) in parcel.headers.iter().filter(|(name, _)| !commands_nats(name)) {
        let wrong = |error: String| format!("NATS cannot carry the header {name}: {error}");
        let key = HeaderName::from_str(name).map_err(|error| wrong(error.to_string()))?;
        let value = HeaderValue::from_str(value).map_err(|error| wrong(error.to_string()))?;
        headers.append(key, value);
    }
    Ok(headers)
}
