//! The names of headers: delayq's own, which a delivery has and a record of an intake asks by, and those of CloudEvents.

/// What delayq's own headers begin with.
const OWN: &str = "delayq-";

/// The content type of an event as one JSON document.
pub const STRUCTURED_EVENT: &str = "application/cloudevents+json";

/// What the headers of an event's attributes begin with, as the bindings to HTTP and NATS, Kafka, and AMQP (the second is
/// for clients that accept no colon) say.
pub const EVENT_PREFIXES: [&str; 4] = ["ce-", "ce_", "cloudEvents:", "cloudEvents_"];

/// The rest of a name after a prefix, whatever the case of either.
#[must_use]
pub fn rest_of<'n>(name: &'n str, prefix: &str) -> Option<&'n str> {
    let start = name.as_bytes().get(..prefix.len())?;
    start.eq_ignore_ascii_case(prefix.as_bytes()).then(|| &name[prefix.len()..])
}

/// What a header of delayq's own says: the rest of its name. A producer cannot forge one of a delivery.
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
