//! The history of a run: requests to delayq with their answers, and the deliveries that an independent consumer
//! received.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::sync::{Mutex, PoisonError};

/// The caller's knowledge after a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Done.
    Ok,
    /// Not done, now or later. For a cancel: too late.
    Refused,
    /// Possibly done.
    Unknown,
}

/// An event, in the order in which its end was observed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[allow(missing_docs, reason = "each field is what the sentence of its variant says of it")]
pub enum Event {
    /// A put and the answer; `sha256` is of the payload, in hex.
    Put { id: String, due_ms: u64, sha256: String, answer: Answer },
    /// A cancel and the answer; ok means *cancelled*.
    Cancel { id: String, answer: Answer },
    /// A move to another due time and its answer.
    Reschedule { id: String, due_ms: u64, answer: Answer },
    /// A delivery that an independent consumer read from a destination. `ready_ms` is by Redis's clock.
    Delivery { destination: String, id: String, sha256: String, delivery: u32, ready_ms: u64 },
    /// A dead letter and its reason.
    Dead { id: String, reason: String },
    /// A timer's pump call with its epoch; `fenced` if the script refused that epoch.
    Pump { shard: u32, epoch: u64, fenced: bool, moved: u64 },
}

/// All events of a run, recorded from many tasks.
#[derive(Debug, Default)]
pub struct History {
    events: Mutex<Vec<Event>>,
}

// === impl History ===

impl History {
    /// Creates an empty history.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an event.
    pub fn record(&self, event: Event) {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }

    /// Adds a put of this payload.
    pub fn put(&self, id: &str, due_ms: u64, payload: &[u8], answer: Answer) {
        self.record(Event::Put { id: id.to_owned(), due_ms, sha256: sha256_hex(payload), answer });
    }

    /// Adds a cancel.
    pub fn cancel(&self, id: &str, answer: Answer) {
        self.record(Event::Cancel { id: id.to_owned(), answer });
    }

    /// Adds a move to another due time.
    pub fn reschedule(&self, id: &str, due_ms: u64, answer: Answer) {
        self.record(Event::Reschedule { id: id.to_owned(), due_ms, answer });
    }

    /// All events so far.
    #[must_use]
    pub fn events(&self) -> Vec<Event> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// All events so far as one JSON object per line, to keep with a failed run.
    #[must_use]
    pub fn to_ndjson(&self) -> String {
        let line = |event| serde_json::to_string(event).expect("an event is plain data");
        self.events().iter().map(|event| line(event) + "\n").collect()
    }
}

impl From<Vec<Event>> for History {
    fn from(events: Vec<Event>) -> Self {
        Self { events: Mutex::new(events) }
    }
}

/// The SHA-256 of a payload, in lower-case hex.
#[must_use]
pub fn sha256_hex(payload: &[u8]) -> String {
    Sha256::digest(payload).iter().map(|byte| format!("{byte:02x}")).collect()
}
