//! Sending in batches: a message is delivered when the server has answered for its entry.

use super::form::{attributes, text_of};
use super::{SqsAccess, SqsClient, SqsFault, is_sqs_fifo};
use crate::brokers::sqs::client::CONNECTIONS;
use crate::brokers::{Blame, Outcome, Outcomes};
use futures_util::future::join_all;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::vec::IntoIter;
use tokio::time::Instant;

/// Maximum number of messages in a call.
const MOST: usize = 10;
/// Maximum bytes of several messages in a call; a message alone may be as large as its queue allows.
const MOST_BYTES: usize = 256 << 10;

/// A message to be sent.
#[derive(Debug)]
pub struct SqsLetter<'a> {
    /// The queue.
    pub queue: &'a str,
    /// The headers.
    pub headers: Vec<(Cow<'a, str>, Cow<'a, [u8]>)>,
    /// The body.
    pub body: &'a [u8],
    /// In a FIFO queue: the group whose order is kept.
    pub group: &'a str,
    /// In a FIFO queue: what a repeat has too, by which the server drops a repeat within five minutes.
    pub identity: String,
}

/// A message in the form of a batch.
struct Entry {
    index: usize,
    json: Value,
    bytes: usize,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Sent {
    #[serde(default)]
    successful: Vec<Accepted>,
    #[serde(default)]
    failed: Vec<Failed>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Accepted {
    id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Failed {
    id: String,
    code: String,
    #[serde(default)]
    message: String,
}

/// The calls for one load of messages.
struct Sending<'a> {
    client: &'a SqsClient,
    access: &'a SqsAccess,
    outcomes: &'a Outcomes,
    /// No call begins later.
    until: Instant,
    /// The failure of the server as a whole.
    failure: OnceLock<Outcome>,
}

impl SqsClient {
    /// Sends messages, and stores the outcome of each at its index.
    pub async fn publish(&self, access: &SqsAccess, letters: &[SqsLetter<'_>], outcomes: &Outcomes) {
        let mut queues: BTreeMap<&str, Vec<Entry>> = BTreeMap::new();
        for (index, letter) in letters.iter().enumerate() {
            match super::sqs_queue(letter.queue) {
                Ok(()) => queues.entry(letter.queue).or_default().push(letter.entry(index)),
                Err(why) => outcomes.put(index, Outcome::rejected(why)),
            }
        }
        let until = Instant::now() + self.patience;
        let sending = Sending { client: self, access, outcomes, until, failure: OnceLock::new() };
        join_all(queues.into_iter().map(|(queue, entries)| sending.to_queue(queue, entries))).await;
        outcomes.put_rest(&match sending.failure.get() {
            Some(Outcome::Unavailable { reason, retry_after, blame: Blame::Destination }) => {
                let (reason, retry_after) = (reason.clone(), *retry_after);
                Outcome::Unavailable { reason, retry_after, blame: Blame::Destination }
            }
            Some(_) => Outcome::unsent("not sent: another message had no answer"),
            None => Outcome::unsent(format!("not sent within {:?}", self.patience)),
        });
    }
}

// === impl Sending ===

impl Sending<'_> {
    async fn to_queue(&self, queue: &str, entries: Vec<Entry>) {
        let url = match self.client.url(self.access, queue).await {
            Ok(url) => url,
            Err(fault) => return self.fail(&entries, &fault),
        };
        let batches = batches(entries);
        let at_once = if is_sqs_fifo(queue) { 1 } else { batches.len().min(CONNECTIONS.into()) };
        let batches = Mutex::new(batches.into_iter());
        join_all((0..at_once).map(|_| self.in_turn(queue, &url, &batches))).await;
    }

    async fn in_turn(&self, queue: &str, url: &str, batches: &Mutex<IntoIter<Vec<Entry>>>) {
        let next = || batches.lock().unwrap_or_else(PoisonError::into_inner).next();
        while let Some(batch) = next() {
            self.send(queue, url, batch).await;
        }
    }

    async fn send(&self, queue: &str, url: &str, batch: Vec<Entry>) {
        match self.call(url, &batch).await {
            None => {}
            // One of them is too large, or has a wrong character: the others pass.
            Some(Err(SqsFault { outcome: Outcome::Rejected { .. }, .. })) if batch.len() > 1 => {
                for entry in batch {
                    let alone = [entry];
                    if let Some(answer) = self.call(url, &alone).await {
                        self.note(queue, &alone, answer);
                    }
                }
            }
            Some(answer) => self.note(queue, &batch, answer),
        }
    }

    /// `None`: it is too late for a call, or the server failed as a whole.
    async fn call(&self, url: &str, batch: &[Entry]) -> Option<Result<Sent, SqsFault>> {
        if self.failure.get().is_some() || Instant::now() >= self.until {
            return None;
        }
        let entries: Vec<&Value> = batch.iter().map(|entry| &entry.json).collect();
        let body = json!({ "QueueUrl": url, "Entries": entries });
        Some(self.client.call(self.access, "SendMessageBatch", &body).await)
    }

    fn note(&self, queue: &str, batch: &[Entry], answer: Result<Sent, SqsFault>) {
        let Sent { successful, failed } = match answer {
            Ok(sent) => sent,
            Err(fault) => return self.fail(batch, &self.client.lost(queue, fault)),
        };
        for Accepted { id } in successful {
            self.put(&id, Outcome::Delivered);
        }
        for Failed { id, code, message } in failed {
            self.put(&id, SqsFault::refused(&code, &message).outcome);
        }
        for entry in batch {
            // The first outcome counts.
            self.outcomes.put(entry.index, Outcome::silent("the server did not answer for this message"));
        }
    }

    fn put(&self, id: &str, outcome: Outcome) {
        if let Ok(index) = id.parse() {
            self.outcomes.put(index, outcome);
        }
    }

    fn fail(&self, batch: &[Entry], fault: &SqsFault) {
        if let Outcome::Unavailable { blame: Blame::Destination | Blame::Silence, .. } = &fault.outcome {
            let _ = self.failure.set(fault.outcome.clone());
        }
        batch.iter().for_each(|entry| self.outcomes.put(entry.index, fault.outcome.clone()));
    }
}

// === impl SqsLetter ===

impl SqsLetter<'_> {
    fn entry(&self, index: usize) -> Entry {
        let (text, encoding) = text_of(self.body);
        let (attributes, bytes) = attributes(&self.headers, encoding);
        let bytes = bytes + text.len();
        let mut json =
            json!({ "Id": index.to_string(), "MessageBody": text, "MessageAttributes": attributes });
        if is_sqs_fifo(self.queue) {
            json["MessageGroupId"] = group_id(self.group).into();
            json["MessageDeduplicationId"] = digest(&self.identity).into();
        }
        Entry { index, json, bytes }
    }
}

/// Cuts messages into batches, in order.
fn batches(entries: Vec<Entry>) -> Vec<Vec<Entry>> {
    let (mut batches, mut bytes) = (Vec::<Vec<Entry>>::new(), 0);
    for entry in entries {
        match batches.last_mut() {
            Some(batch) if batch.len() < MOST && bytes + entry.bytes <= MOST_BYTES => {
                bytes += entry.bytes;
                batch.push(entry);
            }
            _ => {
                bytes = entry.bytes;
                batches.push(vec![entry]);
            }
        }
    }
    batches
}

/// A group as SQS takes it: 1 to 128 plain characters; another group by its digest.
fn group_id(group: &str) -> Cow<'_, str> {
    match (1..=128).contains(&group.len()) && group.chars().all(|c| c.is_ascii_graphic()) {
        true => group.into(),
        false => digest(group).into(),
    }
}

fn digest(text: &str) -> String {
    hex::encode(Sha256::digest(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_has_ten_messages_and_a_quarter_of_a_mebibyte_at_most() {
        for (sizes, expected) in [
            (vec![], vec![]),
            (vec![1; 25], vec![10, 10, 5]),
            (vec![100 << 10; 5], vec![2, 2, 1]),
            (vec![1 << 20, 1, 256 << 10, 1], vec![1, 1, 1, 1]),
        ] {
            let entries = sizes.iter().enumerate();
            let entries = entries.map(|(index, bytes)| Entry { index, json: Value::Null, bytes: *bytes });
            let found: Vec<usize> = batches(entries.collect()).iter().map(Vec::len).collect();
            assert_eq!(found, expected, "{sizes:?}");
        }
    }

    #[test]
    fn a_group_that_sqs_does_not_take_has_a_name_of_its_own() {
        assert_eq!(group_id("order-1"), "order-1");
        for odd in ["", "a b", "é", &"a".repeat(129)] {
            assert_eq!(group_id(odd).len(), 64, "{odd}");
        }
        assert_ne!(group_id("a b"), group_id("a c"));
    }
}
