//! A message as an event: the event that was put, or else an event that describes the message.

use super::{CARRIED, CloudEvent, REQUIRED, VERSION, document};
use crate::headers::rest_of;
use delayq::UnixMillis;
use jiff::Timestamp;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

/// Headers that become attributes of every event.
const TRACE: [&str; 2] = ["traceparent", "tracestate"];

/// A message that was not put as an event.
#[derive(Clone, Copy, Debug)]
pub struct EventOrigin<'m> {
    /// The topic.
    pub topic: &'m str,
    /// The id as text.
    pub id: &'m str,
    /// The group.
    pub group: Option<&'m str>,
    /// When the message was due.
    pub due: UnixMillis,
}

/// A message as an event.
#[derive(Clone, Debug)]
pub struct DeliveredEvent {
    /// The values as text, by name; without the type of the data.
    pub attributes: Vec<(String, String)>,
    was_put: bool,
}

// === impl EventOrigin ===

impl<'m> EventOrigin<'m> {
    /// The group, if part of the message's name: an own id names a different message in each group.
    #[must_use]
    pub fn naming_group(&self) -> Option<&'m str> {
        let is_generated = self.id.starts_with('~') && !self.id.starts_with("~~");
        self.group.filter(|_| !is_generated)
    }

    /// Source and id together identify a message.
    fn source(&self) -> String {
        let topic = self.topic;
        match self.naming_group() {
            None => format!("/delayq/{topic}"),
            Some(group) => format!("/delayq/{topic}#{}", utf8_percent_encode(group, NON_ALPHANUMERIC)),
        }
    }
}

// === impl DeliveredEvent ===

impl DeliveredEvent {
    /// The event of a message with these headers.
    #[must_use]
    pub fn of(headers: &[(String, String)], origin: &EventOrigin<'_>) -> Self {
        if let Some(put) = CloudEvent::carried(headers) {
            let attributes =
                put.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()));
            return Self { attributes: attributes.collect(), was_put: true };
        }
        let header = |wanted: &str| {
            headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value.clone())
        };
        let [id, source, kind] = REQUIRED;
        let mut attributes = vec![
            (VERSION, "1.0".to_owned()),
            (id, origin.id.to_owned()),
            (source, origin.source()),
            (kind, header("ce-type").unwrap_or_else(|| origin.topic.to_owned())),
        ];
        attributes.extend(rfc3339(origin.due).map(|time| ("time", time)));
        attributes.extend(origin.group.map(|group| ("subject", group.to_owned())));
        attributes.extend(TRACE.into_iter().filter_map(|name| Some((name, header(name)?))));
        let attributes = attributes.into_iter().map(|(name, value)| (name.to_owned(), value));
        Self { attributes: attributes.collect(), was_put: false }
    }

    /// True if a header of the message is an attribute of the event as which it was put.
    #[must_use]
    pub fn has(&self, header: &str) -> bool {
        self.was_put && rest_of(header, CARRIED).is_some()
    }

    /// The event as a JSON document.
    #[must_use]
    pub fn document(&self, content_type: Option<&str>, data: &[u8]) -> Vec<u8> {
        let attributes = self.attributes.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        document(attributes, content_type, data, !self.was_put)
    }
}

/// In UTC with milliseconds; `None` after the year 9999, where the format ends.
#[must_use]
pub fn rfc3339(at: UnixMillis) -> Option<String> {
    Timestamp::try_from(at).ok().map(|at| format!("{at:.3}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rfc_3339() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_763_697_600_123, "2025-11-21T04:00:00.123Z"),
            (4_107_542_399_999, "2100-02-28T23:59:59.999Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(rfc3339(UnixMillis::new(ms)).as_deref(), Some(text));
        }
        assert_eq!(rfc3339(UnixMillis::MAX), None);
    }
}
