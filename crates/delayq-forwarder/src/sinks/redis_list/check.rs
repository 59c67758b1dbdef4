//! What a list cannot carry.

/// The warning of a list of payloads.
pub(super) const PAYLOAD_ONLY: &str = "element = \"payload\" carries no id: a consumer cannot recognise a message that is delivered twice after a fault";
