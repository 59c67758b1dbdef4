//! Acks of a connection: one subscription for all of them, read by one task, which puts each at its place in its call.
//!
//! A publication's reply subject is `PREFIX.CALL.PLACE`, and never used again: an ack that comes late finds no call.

use crate::Answers;
use async_nats::{Client, Message, StatusCode, Subject, SubscribeError, Subscriber, jetstream};
use futures_util::StreamExt;
use serde::Deserialize;
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};
use tokio::task::AbortHandle;

/// What a stream said of a publication.
#[derive(Debug, PartialEq)]
pub(super) enum Ack {
    /// It has it.
    Stored,
    /// It had it: something with the same id.
    Duplicate,
    /// There is no stream for this subject.
    NoStream,
    /// It refused it.
    Refused(String),
    /// Something that is no ack.
    Nonsense(String),
}

/// The acks of one connection. Dropped, they are not read any more.
pub(super) struct Acks {
    prefix: String,
    next_call: AtomicU64,
    calls: Calls,
    reading: AbortHandle,
}

/// Publications whose acks are waited for together. Dropped, its acks are passed over.
pub(super) struct Call<'a> {
    acks: &'a Acks,
    number: u64,
    pub(super) answers: Arc<Answers<Ack>>,
}

type Calls = Arc<Mutex<HashMap<u64, Arc<Answers<Ack>>>>>;

/// The body of an ack, as far as it is looked at.
#[derive(Deserialize)]
struct Body {
    seq: Option<u64>,
    #[serde(default)]
    duplicate: bool,
    error: Option<jetstream::Error>,
}

// === impl Acks ===

impl Acks {
    /// Subscribes, and starts the task that reads.
    pub(super) async fn start(client: &Client) -> Result<Self, SubscribeError> {
        let prefix = client.new_inbox();
        let subscriber = client.subscribe(format!("{prefix}.*.*")).await?;
        let calls = Calls::default();
        let reading = tokio::spawn(read(subscriber, prefix.len() + 1, calls.clone())).abort_handle();
        Ok(Self { prefix, next_call: AtomicU64::new(0), calls, reading })
    }

    /// A call of so many publications.
    pub(super) fn call(&self, count: usize) -> Call<'_> {
        let number = self.next_call.fetch_add(1, Ordering::Relaxed);
        let answers = Answers::new(count);
        lock(&self.calls).insert(number, Arc::clone(&answers));
        Call { acks: self, number, answers }
    }
}

impl Drop for Acks {
    fn drop(&mut self) {
        self.reading.abort();
    }
}

// === impl Call ===

impl Call<'_> {
    /// Where the ack of the publication at this place goes.
    pub(super) fn reply(&self, place: usize) -> Subject {
        format!("{}.{}.{place}", self.acks.prefix, self.number).into()
    }
}

impl Drop for Call<'_> {
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

/// Reads acks; the place of one begins at this byte of its subject.
async fn read(mut subscriber: Subscriber, place_at: usize, calls: Calls) {
    // Acks come in the order of the publications: mostly one belongs to the same call as that before it.
    let mut last: Option<(u64, Arc<Answers<Ack>>)> = None;
    while let Some(message) = subscriber.next().await {
        let Some((number, place)) = place(&message.subject, place_at) else { continue };
        if last.as_ref().is_none_or(|(known, _)| *known != number) {
            last = lock(&calls).get(&number).map(|answers| (number, Arc::clone(answers)));
        }
        if let Some((_, answers)) = &last {
            answers.put(place, Ack::of(&message));
        }
    }
}

/// The call and the place that a subject ends with.
fn place(subject: &str, at: usize) -> Option<(u64, usize)> {
    let (call, place) = subject.get(at..)?.split_once('.')?;
    Some((call.parse().ok()?, place.parse().ok()?))
}

fn lock(calls: &Mutex<HashMap<u64, Arc<Answers<Ack>>>>) -> MutexGuard<'_, HashMap<u64, Arc<Answers<Ack>>>> {
    // It is changed by one insert or remove.
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
    fn a_reply_subject_says_call_and_place() {
        assert_eq!(place("_INBOX.x.17.5", 9), Some((17, 5)));
        for subject in ["_INBOX.x", "_INBOX.x.", "_INBOX.x.1", "_INBOX.x.a.5", "_INBOX.x.1.5.6"] {
            assert_eq!(place(subject, 9), None, "{subject}");
        }
    }
}
