//! Messages in flight to a client: given back if anything ends before the socket has taken the answer.

use super::giving_back::Lost;
use crate::server::Enclosure;
use delayq::protocol::Reservation;
use std::collections::VecDeque;
use tokio::sync::mpsc;

/// Messages that were reserved for a request. Dropped before [`Enclosure::sent`], the messages are given back.
#[derive(Debug)]
pub(crate) struct Handed {
    messages: Vec<Reservation>,
    back: mpsc::UnboundedSender<Lost>,
}

// === impl Handed ===

impl Handed {
    pub(super) fn new(messages: Vec<Reservation>, back: mpsc::UnboundedSender<Lost>) -> Self {
        Self { messages, back }
    }

    pub(super) fn extend(&mut self, more: Vec<Reservation>) {
        self.messages.extend(more);
    }

    pub(crate) fn messages(&self) -> &[Reservation] {
        &self.messages
    }

    pub(crate) fn messages_mut(&mut self) -> &mut [Reservation] {
        &mut self.messages
    }

    /// The messages, each for itself.
    pub(crate) fn each(self) -> VecDeque<Self> {
        let back = self.back.clone();
        self.into_messages().into_iter().map(|message| Self::new(vec![message], back.clone())).collect()
    }

    /// The way back, for a message that the client has.
    pub(super) fn back(&self) -> mpsc::UnboundedSender<Lost> {
        self.back.clone()
    }

    /// For another waiter.
    pub(super) fn into_messages(mut self) -> Vec<Reservation> {
        std::mem::take(&mut self.messages)
    }

    /// The answer has the payloads by now.
    pub(crate) fn without_payloads(mut self) -> Self {
        self.messages.iter_mut().for_each(|message| message.envelope.payload = Vec::new());
        self
    }
}

impl Enclosure for Handed {
    fn sent(mut self: Box<Self>) {
        self.messages.clear();
    }
}

impl Drop for Handed {
    fn drop(&mut self) {
        if !self.messages.is_empty() {
            let lost = std::mem::take(&mut self.messages);
            // Without a receiver the process is ending: the leases run out.
            let _ = self.back.send(Lost::unsent(lost));
        }
    }
}
