//! The form of a body.

/// The form of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Json,
    Ndjson,
    /// An event as a JSON document.
    Event,
    /// An array of events.
    Events,
    Other,
}
