//! The acks of a connection: one subscription and one task that stores each ack at its index in the call.
//!
//! A publication's reply subject is `PREFIX.CALL.INDEX` and never reused: a late ack finds no call.

use crate::brokers::Answers;
use async_nats::{Client, Message, StatusCode, Subject, SubscribeError, Subscriber, jetstream};
use futures_util::StreamExt;
use serde::Deserialize;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::task::AbortHandle;

#[derive(Debug, PartialEq)]
pub(super) enum Ack {
    Stored,
    Duplicate,
    /// There is none: the message was not sent.
    None,
    /// No stream has this subject.
    NoStream,
    Refused(String),
    Nonsense(String),
}

/// Read until dropped.
pub(super) struct Acks {
    prefix: String,
    next_call: AtomicU64,
    calls: OpenPublications,
    reading: AbortHandle,
}

/// Dropping the call ignores later acks.
pub(super) struct Publications<'a> {
    acks: &'a Acks,
    number: u64,
    pub(super) answers: Arc<Answers<Ack>>,
}

type OpenPublications = Arc<Mutex<HashMap<u64, Arc<Answers<Ack>>>>>;

#[derive(Deserialize)]
struct Body {
    seq: Option<u64>,
    #[serde(default)]
    duplicate: bool,
    error: Option<jetstream::Error>,
}

// === impl Acks ===

impl Acks {
    pub(super) async fn start(client: &Client) -> Result<Self, SubscribeError> {
        let prefix = client.new_inbox();
        let subscriber = client.subscribe(format!("{prefix}.*.*")).await?;
        let calls = OpenPublications::default();
        let reading = tokio::spawn(read(subscriber, prefix.len() + 1, calls.clone())).abort_handle();
        Ok(Self { prefix, next_call: AtomicU64::new(0), calls, reading })
    }

    pub(super) fn call(&self, count: usize) -> Publications<'_> {
        let number = self.next_call.fetch_add(1, Ordering::Relaxed);
        let answers = Answers::new(count);
        lock(&self.calls).insert(number, Arc::clone(&answers));
        Publications { acks: self, number, answers }
    }
}

impl Drop for Acks {
    fn drop(&mut self) {
        self.reading.abort();
    }
}

// === impl Publications ===

impl Publications<'_> {
    pub(super) fn reply(&self, index: usize) -> Subject {
        format!("{}.{}.{index}", self.acks.prefix, self.number).into()
    }
}

impl Drop for Publications<'_> {
    fn drop(&mut self) {
        lock(&self.acks.calls).remove(&self.number);
    }
}

// === impl Ack ===

impl Ack {
    fn of(message: &Message) -> Self {
        if message.status == Some(StatusCode::NO_RESPONDERS) {
            return Self::NoStream;
        }
        match serde_json::from_slice(&message.payload) {
            Ok(Body { error: Some(error), .. }) => Self::Refused(error.to_string()),
            Ok(Body { seq: Some(_), duplicate: false, .. }) => Self::Stored,
            Ok(Body { seq: Some(_), duplicate: true, .. }) => Self::Duplicate,
            Ok(Body { seq: None, .. }) => Self::Nonsense("an ack without a sequence number".to_owned()),
            Err(error) => Self::Nonsense(error.to_string()),
        }
    }
}

/// The index begins at byte `index_at` of a subject.
async fn read(mut subscriber: Subscriber, index_at: usize, calls: OpenPublications) {
    // Acks arrive in the order of the publications: most belong to the same call as the previous ack.
    let mut last: Option<(u64, Arc<Answers<Ack>>)> = None;
    while let Some(message) = subscriber.next().await {
        let Some((number, index)) = call_and_index(&message.subject, index_at) else { continue };
        if last.as_ref().is_none_or(|(known, _)| *known != number) {
            last = lock(&calls).get(&number).map(|answers| (number, Arc::clone(answers)));
        }
        if let Some((_, answers)) = &last {
            answers.put(index, Ack::of(&message));
        }
    }
}

/// At the end of a subject.
fn call_and_index(subject: &str, at: usize) -> Option<(u64, usize)> {
    let (call, index) = subject.get(at..)?.split_once('.')?;
    Some((call.parse().ok()?, index.parse().ok()?))
}

fn lock(calls: &Mutex<HashMap<u64, Arc<Answers<Ack>>>>) -> MutexGuard<'_, HashMap<u64, Arc<Answers<Ack>>>> {
    // Each change is one insert or remove.
    calls.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ack(payload: &str, status: Option<StatusCode>) -> Ack {
        Ack::of(&Message {
            subject: "_INBOX.x.1.2".into(),
            reply: None,
            payload: payload.to_owned().into(),
            headers: None,
            status,
            description: None,
            length: payload.len(),
        })
    }

    #[test]
    fn only_a_sequence_number_is_an_ack() {
        let refusal = r#"{"error":{"code":400,"err_code":10054,"description":"message size exceeds maximum allowed"},"stream":"S","seq":0}"#;
        for (payload, status, expected) in [
            (r#"{"stream":"S","seq":7}"#, None, Ack::Stored),
            (r#"{"stream":"S","domain":"d","seq":7,"duplicate":true}"#, None, Ack::Duplicate),
            ("", Some(StatusCode::NO_RESPONDERS), Ack::NoStream),
            (
                refusal,
                None,
                Ack::Refused("message size exceeds maximum allowed (code 400, error code 10054)".to_owned()),
            ),
            ("{}", None, Ack::Nonsense("an ack without a sequence number".to_owned())),
        ] {
            assert_eq!(ack(payload, status), expected, "{payload}");
        }
        assert!(matches!(ack("+OK", None), Ack::Nonsense(_)));
    }

    #[test]
    fn a_reply_subject_holds_call_and_index() {
        assert_eq!(call_and_index("_INBOX.x.17.5", 9), Some((17, 5)));
        for subject in ["_INBOX.x", "_INBOX.x.", "_INBOX.x.1", "_INBOX.x.a.5", "_INBOX.x.1.5.6"] {
            assert_eq!(call_and_index(subject, 9), None, "{subject}");
        }
    }
}
