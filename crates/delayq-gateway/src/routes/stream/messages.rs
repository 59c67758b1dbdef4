//! The messages of a stream, from the reserve to the settlement.
//!
//! ```text
//!  free credits ─► polling ─► unsent ─► sending ─► unsettled
//! ```
//! A poll begins when nothing is unsent, for as many messages as credits are free.

use super::call::{StreamCall, ended};
use super::credits::Credits;
use super::tell;
use crate::dispatch::{Handed, Poll, Unsettled, Wanted, WantedKind};
use crate::problem::Problem;
use crate::receipts::Signer;
use crate::routes::reserve::shown;
use crate::server::Peer;
use crate::state::Scope;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::Instant;

/// Pause after a reserve that failed.
const REST: Duration = Duration::from_secs(1);

/// Dropped, all of them go back.
#[derive(Default)]
pub(super) struct Messages {
    /// `None`: not asked for yet.
    kind: Option<WantedKind>,
    credits: Credits,
    /// Kept over every wait for something else.
    polling: Option<StreamCall<Reserved>>,
    /// The last reserve failed; the next one comes later.
    rests_until: Option<Instant>,
    unsent: VecDeque<StreamMessage>,
    /// Unsent messages have no lease after this time.
    leased_until: Option<Instant>,
    /// The socket may have a part of it.
    sending: Option<(String, Handed)>,
    unsettled: Unsettled,
}

pub(super) type Reserved = Result<Option<(Handed, Signer)>, Problem>;

pub(super) struct StreamMessage {
    frame: String,
    receipt: String,
    /// Without the payload, which the frame has.
    handed: Handed,
}

// === impl Messages ===

impl Messages {
    pub(super) fn is_begun(&self) -> bool {
        self.kind.is_some()
    }

    pub(super) fn begin(&mut self, kind: WantedKind) {
        self.kind = Some(kind);
    }

    pub(super) fn credits(&self) -> Credits {
        self.credits
    }

    /// Gives back what no credit is left for.
    pub(super) fn grant(&mut self, credits: Credits) {
        if credits < self.credits {
            // What the poll would have brought goes to others.
            self.polling = None;
            self.unsent.truncate(credits.free(self.unsettled.len()).into());
        }
        self.credits = credits;
    }

    pub(super) fn ask(&mut self, scope: &Scope, peer: &Peer) {
        let Some(kind) = &self.kind else { return };
        let max = self.credits.free(self.unsettled.len());
        if max > 0 && self.unsent.is_empty() && self.polling.is_none() && self.rests_until.is_none() {
            let wanted = Wanted { kind: kind.clone(), max };
            let poll = Poll { wanted, wait: Duration::MAX, peer: peer.clone() };
            self.polling = Some(Box::pin(reserved(scope.clone(), poll)));
        }
    }

    /// The end of a poll. Cancel safe.
    pub(super) async fn reserved(&mut self) -> Reserved {
        if let Some(until) = self.rests_until {
            tokio::time::sleep_until(until).await;
            self.rests_until = None;
            return Ok(None);
        }
        ended(&mut self.polling).await
    }

    /// Returns why no messages came.
    pub(super) fn take(&mut self, reserved: Reserved) -> Result<(), Problem> {
        match reserved {
            Ok(Some((handed, signer))) => {
                let lease = self.kind.as_ref().map(|kind| kind.lease);
                self.leased_until = lease.and_then(|lease| Instant::now().checked_add(lease));
                self.unsent = handed.each().into_iter().map(|handed| framed(handed, &signer)).collect();
                Ok(())
            }
            Ok(None) => Ok(()),
            Err(problem) => {
                self.rests_until = Some(Instant::now() + REST);
                Err(problem)
            }
        }
    }

    pub(super) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// The next message to send, under its lease.
    pub(super) fn next_unsent(&mut self) -> Option<StreamMessage> {
        if self.leased_until.is_some_and(|until| until <= Instant::now()) {
            self.unsent.clear();
        }
        self.unsent.pop_front()
    }

    /// The frame was handed to the socket.
    pub(super) fn sending(&mut self, receipt: String, handed: Handed) {
        self.sending = Some((receipt, handed));
    }

    /// The socket has taken all.
    pub(super) fn sent(&mut self) {
        if let Some((receipt, handed)) = self.sending.take() {
            self.unsettled.add(receipt, handed);
        }
    }

    pub(super) fn settled(&mut self, receipt: &str) {
        self.unsettled.remove(receipt);
    }

    /// The word of the metric.
    pub(super) fn state(&self) -> &'static str {
        let taken = self.unsettled.len() + self.unsent.len();
        match (&self.kind, self.credits.free(taken)) {
            (None, _) => "opening",
            (Some(_), 0) => "full",
            (Some(_), _) => "waiting",
        }
    }

    /// No further message is asked for or sent.
    pub(super) fn stop(&mut self) {
        (self.kind, self.polling, self.rests_until) = (None, None, None);
        self.unsent.clear();
    }

    /// The client keeps the leases of what it has.
    pub(super) fn leave(self) {
        self.unsettled.leave();
    }
}

// === impl StreamMessage ===

impl StreamMessage {
    /// The frame, and what [`Messages::sending`] takes.
    pub(super) fn into_parts(self) -> (String, String, Handed) {
        (self.frame, self.receipt, self.handed)
    }
}

async fn reserved(scope: Scope, poll: Poll) -> Reserved {
    let Some(handed) = scope.reserve_stored(poll).await? else {
        // The gateway stops.
        return std::future::pending().await;
    };
    let signer = scope.signer().await?;
    Ok(Some((handed, signer)))
}

fn framed(handed: Handed, signer: &Signer) -> StreamMessage {
    let message = handed.messages().first().expect("each has one");
    let (receipt, frame) = (signer.text(&message.receipt), tell::message(&shown(message, signer)));
    StreamMessage { frame, receipt, handed: handed.without_payloads() }
}
