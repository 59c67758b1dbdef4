//! The turn: of all compensators that share a consumer, one reads at a time. Otherwise records of one message would be
//! carried out concurrently.
//!
//! ```text
//! waiting ── "claim ID" ──► claiming ── nobody objects ──► held ── says so from time to time, and to each claim
//!    ▲                          │                           │
//!    └──── rest ◄── "held ID" ──┘                           └─ the connection breaks, or "held" of a lower ID: it is over
//! ```
//! Compensators talk over one subject of the server, and store nothing: a turn ends with the holder's connection. A holder
//! that was too slow to object, or cut off from the others, has its turn at the same time as another holder, until one hears
//! of the other.

use async_nats::{Client, Subscriber};
use futures_util::{FutureExt, StreamExt};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{Instant, interval, sleep, timeout, timeout_at};

/// Time for the objections of others.
const OBJECTION: Duration = Duration::from_millis(300);
/// The rest between two claims, and the interval between a holder's announcements.
const REST: Duration = Duration::from_millis(700);

pub(super) const OVER: &str = "another compensator reads the consumer";

/// The turn of a connection, asked for until this is dropped.
pub(super) struct Turn {
    held: watch::Receiver<bool>,
    asking: AbortHandle,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    Claim(u64),
    Held(u64),
}

// === impl Turn ===

impl Turn {
    pub(super) async fn ask(client: &Client, stream: &str, consumer: &str) -> Result<Self, String> {
        let talk = Talk::join(client, stream, consumer).await?;
        let (sender, held) = watch::channel(false);
        Ok(Self { held, asking: tokio::spawn(talk.run(sender)).abort_handle() })
    }

    /// Waits until it is this connection's turn. Cancel safe.
    pub(super) async fn held(&mut self) -> Result<(), String> {
        match self.held.wait_for(|held| *held).await {
            Ok(_) => Ok(()),
            Err(_) => Err(OVER.to_owned()),
        }
    }

    /// Waits until a turn that was held is over. Cancel safe.
    pub(super) async fn over(&mut self) -> String {
        while self.held.changed().await.is_ok() {}
        OVER.to_owned()
    }

    /// True if it is over.
    pub(super) fn is_over(&self) -> bool {
        self.held.has_changed().is_err()
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.asking.abort();
    }
}

/// True if a compensator announces that it has the turn; waits for an announcement.
pub(super) async fn is_held(client: &Client, stream: &str, consumer: &str) -> Result<bool, String> {
    let mut talk = Talk::join(client, stream, consumer).await?;
    let end = Instant::now() + 2 * REST;
    loop {
        match timeout_at(end, talk.hear()).await {
            Ok(Some(Word::Held(_))) => return Ok(true),
            Ok(Some(Word::Claim(_))) => {}
            Ok(None) | Err(_) => return Ok(false),
        }
    }
}

/// A side of the talk.
struct Talk {
    client: Client,
    subject: String,
    heard: Subscriber,
    own: u64,
}

// === impl Talk ===

impl Talk {
    async fn join(client: &Client, stream: &str, consumer: &str) -> Result<Self, String> {
        let subject = format!("delayq.turn.{stream}.{consumer}");
        let heard = client.subscribe(subject.clone()).await.map_err(|error| error.to_string())?;
        Ok(Self { client: client.clone(), subject, heard, own: fastrand::u64(..) })
    }

    async fn run(mut self, held: watch::Sender<bool>) {
        while !self.claim().await {
            self.rest().await;
        }
        held.send_replace(true);
        let mut says = interval(REST);
        loop {
            tokio::select! {
                _ = says.tick() => {}
                word = self.hear() => match word {
                    None => return,
                    Some(Word::Held(other)) if other < self.own => return,
                    Some(_) => {}
                }
            }
            self.say(Word::Held(self.own)).await;
        }
    }

    /// Claims the turn; true if nobody objects, as the holder or with a lower number as another claimant.
    async fn claim(&mut self) -> bool {
        self.say(Word::Claim(self.own)).await;
        let end = Instant::now() + OBJECTION;
        loop {
            match timeout_at(end, self.hear()).await {
                Err(_) => return true,
                Ok(Some(Word::Held(_)) | None) => return false,
                Ok(Some(Word::Claim(other))) if other < self.own => return false,
                // The answer is no `Held`: a holder with a higher number would believe that and give up the turn.
                Ok(Some(Word::Claim(_))) => self.say(Word::Claim(self.own)).await,
            }
        }
    }

    /// Waits, and forgets all that is said meanwhile: the next claim would take a late answer for an objection, by a holder
    /// that may be gone.
    async fn rest(&mut self) {
        let listen = async { while self.hear().await.is_some() {} };
        tokio::join!(sleep(REST), timeout(REST, listen).map(drop));
    }

    /// Another compensator's word; `None`: the connection is closed.
    async fn hear(&mut self) -> Option<Word> {
        loop {
            let message = self.heard.next().await?;
            let word = std::str::from_utf8(&message.payload).ok().and_then(Word::read);
            match word {
                Some(Word::Claim(number) | Word::Held(number)) if number != self.own => return word,
                _ => {}
            }
        }
    }

    async fn say(&self, word: Word) {
        // A failure means a lost connection, which the reader reports.
        let _ = self.client.publish(self.subject.clone(), word.text().into()).await;
    }
}

// === impl Word ===

impl Word {
    fn text(self) -> String {
        match self {
            Self::Claim(number) => format!("claim {number}"),
            Self::Held(number) => format!("held {number}"),
        }
    }

    fn read(text: &str) -> Option<Self> {
        let (word, number) = text.split_once(' ')?;
        let number = number.parse().ok()?;
        match word {
            "claim" => Some(Self::Claim(number)),
            "held" => Some(Self::Held(number)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_turn_is_over_once_its_holder_gave_it_up() {
        let (sender, held) = watch::channel(false);
        let turn = Turn { held, asking: tokio::spawn(std::future::pending::<()>()).abort_handle() };
        assert!(!turn.is_over());
        sender.send_replace(true);
        assert!(!turn.is_over());
        drop(sender);
        assert!(turn.is_over());
    }

    #[test]
    fn a_word_is_read_as_it_was_said() {
        for word in [Word::Claim(0), Word::Held(u64::MAX)] {
            assert_eq!(Word::read(&word.text()), Some(word));
        }
        for text in ["", "claim", "claim x", "keep 1"] {
            assert_eq!(Word::read(text), None, "{text}");
        }
    }
}
