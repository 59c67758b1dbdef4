//! Messages that the client of a stream has and did not settle.

use super::giving_back::Lost;
use super::handed::Handed;
use delayq::protocol::Receipt;
use std::collections::HashMap;
use tokio::sync::mpsc;

/// By the receipts that the client has. Dropped, the messages are given back, and the attempts count: a message may be why the client
/// failed.
#[derive(Debug, Default)]
pub(crate) struct Unsettled {
    receipts: HashMap<String, Receipt>,
    /// `None` before the first message.
    back: Option<mpsc::UnboundedSender<Lost>>,
}

// === impl Unsettled ===

impl Unsettled {
    /// The socket has taken the message with this receipt.
    pub(crate) fn add(&mut self, receipt: String, sent: Handed) {
        self.back.get_or_insert_with(|| sent.back());
        let message = sent.into_messages().pop().expect("a frame has one message");
        self.receipts.insert(receipt, message.receipt);
    }

    /// The message is settled, or the lease is lost.
    pub(crate) fn remove(&mut self, receipt: &str) {
        self.receipts.remove(receipt);
    }

    pub(crate) fn len(&self) -> usize {
        self.receipts.len()
    }

    /// The client keeps the leases, and settles elsewhere.
    pub(crate) fn leave(mut self) {
        self.receipts.clear();
    }
}

impl Drop for Unsettled {
    fn drop(&mut self) {
        if let (Some(back), false) = (&self.back, self.receipts.is_empty()) {
            let lost = self.receipts.drain().map(|(_, receipt)| receipt).collect();
            // Without a receiver the process is ending: the leases run out.
            let _ = back.send(Lost::unsettled(lost));
        }
    }
}
