//! Publishing into streams: a message is delivered when its stream acked.

use super::acks::{Ack, Acks};
use super::nats_subject;
use super::refusals::NatsRefusals;
use crate::brokers::Outcome;
use async_nats::client::{PublishError, PublishErrorKind};
use async_nats::{Client, HeaderMap, Subject, SubscribeError};
use std::pin::Pin;
use std::time::Duration;
use tokio::time::{Sleep, interval};

/// Interval at which received acks are handed out while others are missing.
const COLLECT_EVERY: Duration = Duration::from_millis(50);

/// Publishes over a connection, and receives the acks.
pub struct NatsPublisher {
    client: Client,
    acks: Acks,
    refusals: NatsRefusals,
}

/// A message to be published.
#[derive(Debug)]
pub struct NatsLetter<'a> {
    /// The subject.
    pub subject: &'a str,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: bytes::Bytes,
}

/// The answer for a message.
#[derive(Debug)]
pub enum NatsAnswer {
    /// The outcome.
    Outcome(Outcome),
    /// The stream has dropped the message as a repeat of one with the same id.
    Duplicate,
}

// === impl NatsPublisher ===

impl NatsPublisher {
    /// Receives acks over this connection, whose events `refusals` hears.
    ///
    /// # Errors
    /// The client is closed.
    pub async fn start(client: Client, refusals: NatsRefusals) -> Result<Self, SubscribeError> {
        let acks = Acks::start(&client).await?;
        Ok(Self { client, acks, refusals })
    }

    /// The outcome of messages without an ack, with the server's last refusal.
    #[must_use]
    pub fn silent(&self, patience: Duration) -> Outcome {
        let refused = self.refusals.last().map_or_else(String::new, |words| format!(": {words}"));
        Outcome::silent(format!("no ack within {patience:?}{refused}"))
    }

    /// Publishes `count` messages, then hands out the answer of each, until the last answer or the deadline. `letter` makes
    /// the message of an index.
    pub async fn publish<'l>(
        &self,
        count: usize,
        letter: impl Fn(usize) -> Result<NatsLetter<'l>, Outcome>,
        mut over: Pin<&mut Sleep>,
        mut answer: impl FnMut(usize, NatsAnswer),
    ) {
        let acks = self.acks.call(count);
        let sending = async {
            let mut known = None;
            for index in 0..count {
                let sent = match letter(index) {
                    Ok(letter) => self.send(&mut known, letter, acks.reply(index)).await,
                    Err(outcome) => Err(outcome),
                };
                if let Err(outcome) = sent {
                    answer(index, NatsAnswer::Outcome(outcome));
                    acks.answers.put(index, Ack::None);
                }
            }
        };
        if before(over.as_mut(), sending).await.is_none() {
            return;
        }
        let mut every = interval(COLLECT_EVERY);
        loop {
            let ended = tokio::select! {
                biased;
                () = acks.answers.complete() => true,
                () = over.as_mut() => true,
                _ = every.tick() => false,
            };
            for (index, ack) in acks.answers.fresh() {
                meaning(ack).into_iter().for_each(|meaning| answer(index, meaning));
            }
            if ended {
                return;
            }
        }
    }

    /// `known` is the previous subject.
    async fn send(
        &self,
        known: &mut Option<Subject>,
        letter: NatsLetter<'_>,
        reply: Subject,
    ) -> Result<(), Outcome> {
        let NatsLetter { subject, headers, body } = letter;
        if known.as_ref().is_none_or(|known| known.as_str() != subject) {
            nats_subject(subject).map_err(Outcome::rejected)?;
            *known = Some(subject.into());
        }
        let subject = known.clone().expect("it was just set");
        let sent = self.client.publish_with_reply_and_headers(subject, reply, headers, body).await;
        sent.map_err(|error| refused(&error))
    }
}

/// `None` if the deadline comes first.
async fn before<T>(over: Pin<&mut Sleep>, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        output = work => Some(output),
        () = over => None,
    }
}

/// `None`: the message was not sent.
fn meaning(ack: Ack) -> Option<NatsAnswer> {
    Some(NatsAnswer::Outcome(match ack {
        Ack::None => return None,
        Ack::Duplicate => return Some(NatsAnswer::Duplicate),
        Ack::Stored => Outcome::Delivered,
        Ack::NoStream => Outcome::failed("no stream found for given subject"),
        // The stream's limit on message size; other refusals concern the stream as a whole.
        Ack::Refused(why) if why.contains("message size exceeds maximum") => Outcome::rejected(why),
        Ack::Refused(why) | Ack::Nonsense(why) => Outcome::down(why),
    }))
}

fn refused(error: &PublishError) -> Outcome {
    match error.kind() {
        PublishErrorKind::MaxPayloadExceeded | PublishErrorKind::InvalidSubject => {
            Outcome::rejected(error.to_string())
        }
        PublishErrorKind::Send => Outcome::down(error.to_string()),
    }
}
