//! One parcel as one publication.

use crate::Parcel;
use async_nats::{HeaderMap, HeaderName, HeaderValue};
use delayq_service::brokers::commands_nats;
use std::str::FromStr;

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
