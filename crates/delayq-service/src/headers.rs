//! Header names: delayq's own, in deliveries and in records of an intake, and the headers of CloudEvents.

/// The prefix of delayq's own headers.
const OWN: &str = "delayq-";

/// The content type of an event as one JSON document.
pub const STRUCTURED_EVENT: &str = "application/cloudevents+json";

/// The prefixes of event attribute headers in the bindings to HTTP and NATS, Kafka, and AMQP (the second AMQP form is
/// for clients without colons).
pub const EVENT_PREFIXES: [&str; 4] = ["ce-", "ce_", "cloudEvents:", "cloudEvents_"];

/// The rest of a name after a prefix, ignoring case.
#[must_use]
pub fn rest_of<'n>(name: &'n str, prefix: &str) -> Option<&'n str> {
    let start = name.as_bytes().get(..prefix.len())?;
    start.eq_ignore_ascii_case(prefix.as_bytes()).then(|| &name[prefix.len()..])
}

/// The name of one of delayq's own headers, without the prefix. A producer cannot forge these in a delivery.
#[must_use]
pub fn own(name: &str) -> Option<&str> {
    rest_of(name, OWN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_of_delayqs_own_is_known_in_any_case() {
        for (name, rest) in [
            ("delayq-id", Some("id")),
            ("Delayq-Due", Some("Due")),
            ("delayq", None),
            ("x-delayq-id", None),
            ("délayq-é", None),
        ] {
            assert_eq!(own(name), rest, "{name}");
        }
    }
}
