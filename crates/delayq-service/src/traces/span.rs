//! An event in the life of a message.

use crate::traceparent::TraceParent;
use delayq::protocol::UnixMicros;

/// An event in the life of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Name of the event.
    pub name: &'static str,
    /// The trace, and the span's own id.
    pub own: TraceParent,
    /// The id of the parent span.
    pub parent: u64,
    /// True if the span hands the message to another system.
    pub sends: bool,
    /// Start.
    pub start: UnixMicros,
    /// End; not before the start.
    pub end: UnixMicros,
    /// Further attributes.
    pub attributes: Vec<(&'static str, String)>,
    /// The reason of a failure.
    pub failure: Option<String>,
}

/// The process's own attributes, by the names of OpenTelemetry.
pub(super) type Own<'o> = [(&'static str, &'o str); 3];
