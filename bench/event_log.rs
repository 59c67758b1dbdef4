//! The event log: one JSON object per line, with a time and an event of a message.
//!
//! ```json
//! {"at":"2013-02-08T07:03:00Z","put":{"topic":"boarding","id":"2013-02-08-US-1117-EWR","group":"US","due":"…","payload":{…}}}
//! {"at":"2013-02-08T09:00:00Z","reschedule":{"topic":"boarding","id":"2013-02-08-US-1117-EWR","group":"US","due":"…"}}
//! {"at":"2013-02-08T09:04:00Z","cancel":{"topic":"boarding","id":"2013-02-08-US-1117-EWR","group":"US"}}
//! ```

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// An event of the log.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// Time of the event.
    pub at: Timestamp,
    /// A message was put.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub put: Option<Put>,
    /// A message got another due time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reschedule: Option<Moved>,
    /// A message was cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel: Option<Cancelled>,
}

/// A put in the log.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Put {
    /// Topic.
    pub topic: String,
    /// Id; required, because later events name the message by id.
    pub id: String,
    /// Group, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Due time.
    pub due: Timestamp,
    /// Payload: a string stands for its text, any other JSON for its source.
    pub payload: Box<RawValue>,
}

/// A reschedule in the log.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Moved {
    /// Topic of the message.
    pub topic: String,
    /// Id of the message.
    pub id: String,
    /// Group of the message, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// New due time.
    pub due: Timestamp,
}

/// A cancel in the log.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cancelled {
    /// Topic of the message.
    pub topic: String,
    /// Id of the message.
    pub id: String,
    /// Group of the message, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
}

// === impl Event ===

impl Event {
    /// A put at a time.
    pub fn put(at: Timestamp, put: Put) -> Self {
        Self { at, put: Some(put), reschedule: None, cancel: None }
    }

    /// A reschedule at a time.
    pub fn reschedule(at: Timestamp, moved: Moved) -> Self {
        Self { at, put: None, reschedule: Some(moved), cancel: None }
    }

    /// A cancel at a time.
    pub fn cancel(at: Timestamp, cancelled: Cancelled) -> Self {
        Self { at, put: None, reschedule: None, cancel: Some(cancelled) }
    }
}
