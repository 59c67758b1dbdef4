//! The event log: what happened to messages and when, one JSON object a line.
//!
//! ```json
//! {"at":"2013-02-08T07:03:00Z","put":{"topic":"boarding","id":"2013-02-08-US-1117-EWR","group":"US","due":"…","payload":{…}}}
//! {"at":"2013-02-08T09:00:00Z","reschedule":{"topic":"boarding","id":"2013-02-08-US-1117-EWR","group":"US","due":"…"}}
//! {"at":"2013-02-08T09:04:00Z","cancel":{"topic":"boarding","id":"2013-02-08-US-1117-EWR","group":"US"}}
//! ```

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// One event.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// When it happened.
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
    /// Its topic.
    pub topic: String,
    /// Its id; a log is about ids, so there is always one.
    pub id: String,
    /// Its group, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// When it is due.
    pub due: Timestamp,
    /// Its payload: a string as it is, any other JSON as it is written.
    pub payload: Box<RawValue>,
}

/// A reschedule in the log.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Moved {
    /// The message's topic.
    pub topic: String,
    /// The message's id.
    pub id: String,
    /// The message's group, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// When it is due from then on.
    pub due: Timestamp,
}

/// A cancel in the log.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cancelled {
    /// The message's topic.
    pub topic: String,
    /// The message's id.
    pub id: String,
    /// The message's group, if it has one.
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
